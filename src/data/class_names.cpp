#include "data/class_names.hpp"

#include "core/error.hpp"

namespace eqt::data {

std::vector<std::string> class_names(const std::string& dataset) {
  // H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747, table 2.
  if (dataset == "fashion-mnist")
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  // batches.meta.txt of the binary version.
  if (dataset == "cifar10")
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  // fine_label_names.txt of the binary version.
  if (dataset == "cifar100")
    return {
        "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
        "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
        "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
        "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
        "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
        "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
        "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
        "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
        "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
        "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
        "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
        "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
        "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
        "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
        "table",       "tank",          "telephone", "television", "tiger",        "tractor",
        "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
        "willow_tree", "wolf",          "woman",     "worm"};
  // See wave_of in synthetic.cpp: the angle turns first.
  if (dataset == "synthetic")
    return {"0 degrees, 4 pixels",    "22.5 degrees, 4 pixels", "45 degrees, 4 pixels",
            "67.5 degrees, 4 pixels", "90 degrees, 4 pixels",   "0 degrees, 8 pixels",
            "22.5 degrees, 8 pixels", "45 degrees, 8 pixels",   "67.5 degrees, 8 pixels",
            "90 degrees, 8 pixels"};
  fail(Kind::usage, "data.name: expected a set with named classes, found \"{}\"", dataset);
}

}  // namespace eqt::data
