// SPDX-License-Identifier: Apache-2.0
// libFuzzer over the readers of files and command lines.
//
//   reader_fuzz --list              the readers' names
//   reader_fuzz --reader=NAME ...   fuzzes one of them; everything else goes to libFuzzer
//
// Seeds are in fuzz/seeds/NAME. Accepted input must satisfy the postconditions of its reader;
// refused input must give the error that the header names.

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/dumped_gradient.hpp"
#include "config/build_topology.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/csv_table.hpp"
#include "data/known_images.hpp"
#include "data/npy_file.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture.hpp"
#include "data/pictures/picture_list.hpp"
#include "data/pictures/resize.hpp"
#include "figures/page.hpp"
#include "forecast/step_simulation.hpp"
#include "fuzz/memory_files.hpp"
#include "fuzz/text_readers.hpp"
#include "metrics/decisions.hpp"
#include "planner/cluster_file.hpp"
#include "report/comparison.hpp"
#include "report/drawing.hpp"
#include "report/paper_tables.hpp"
#include "report/read_run.hpp"
#include "report/report.hpp"
#include "report/report_json.hpp"
#include "report/starts.hpp"
#include "support/script_bytes.hpp"
#include "support/torch_bytes.hpp"
#include "topology/topology.hpp"
#include "weights/script_archive.hpp"
#include "weights/state_dict.hpp"
#ifdef EQT_FUZZ_CHECKPOINT
#include <cstring>

#include "checkpoint/state_file.hpp"
#include "core/checksum.hpp"
#endif

namespace {

using namespace eqt;
using namespace eqt::fuzz;

/// Runs `work`, which may refuse its input only by an error of this kind, in one line.
template <typename Work>
void expect(Kind kind, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() != kind) breach(fmt::format("expected another error than {}", error.what()));
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      breach(fmt::format("expected one line, found {}", error.what()));
  }
}

std::string text_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// At most `most` texts, at least one: each ends with a byte 0.
std::vector<std::string> texts_of(Bytes bytes, std::size_t most) {
  const std::string all = text_of(bytes);
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= all.size() && parts.size() < most;) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    parts.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// A config, then --set arguments, one text each. An accepted config must be the same after reading
/// its resolved text.
void read_config(Bytes bytes) {
  const std::vector<std::string> parts = texts_of(bytes, 8);
  const std::vector<std::string> sets(parts.begin() + 1, parts.end());
  expect(Kind::usage, [&] {
    const std::string resolved =
        config::resolved_json(config::parse_config(parts.front(), "fuzz", sets));
    if (config::resolved_json(config::parse_config(resolved, "resolved", {})) != resolved)
      breach("expected a resolved config to resolve to itself, found\n" + resolved);
  });
}

void read_graph(Bytes bytes) {
  constexpr int kMaxRanks = 64;  // more would only take longer
  expect(Kind::usage, [&] {
    const topology::Graph graph = config::parse_graph(text_of(bytes), "fuzz");
    if (graph.ranks > kMaxRanks) return;
    (void)topology::make_topology({.kind = topology::GraphKind::graph, .graph = graph},
                                  graph.ranks);
  });
}

/// A cluster for plan. A step of ranks that it describes must take a finite time.
void read_cluster(Bytes bytes) {
  constexpr int kMaxRanks = 8;  // more would only take longer
  expect(Kind::usage, [&] {
    forecast::Cluster cluster = planner::parse_cluster(text_of(bytes), "fuzz").cluster;
    if (cluster.ranks() > kMaxRanks) return;
    // What plan takes from elsewhere.
    for (forecast::Boards& boards : cluster.boards) {
      if (boards.step_seconds == 0) boards.step_seconds = 0.1;
      boards.update_seconds = std::max(boards.update_seconds, 0.0);
      boards.speed.stall_every = 0;
    }
    for (forecast::Link& link : cluster.links) {
      if (link.bytes_per_second == 0) link.bytes_per_second = 1e6;
      link.latency_seconds = std::max(link.latency_seconds, 0.0);
    }
    const forecast::BucketWork bucket = {
        .ready = 0.5, .rounds = {{.seconds_before = 1e-3, .message_bytes = 1e6}}};
    const forecast::StepForecast forecast =
        forecast::simulate_steps(cluster, {.buckets = {bucket}}, {.steps = 4});
    if (!std::isfinite(forecast.mean_seconds) || !(forecast.mean_seconds > 0))
      breach(fmt::format("expected a finite time, found {}", forecast.mean_seconds));
  });
}

/// Decisions of a run. Accepted ones must be finite and of ascending steps.
void read_decisions(Bytes bytes) {
  static const MemoryFile memory;
  memory.hold(bytes);
  expect(Kind::data, [&] {
    StepId last = 0;
    for (const metrics::DecisionRecord& decision :
         metrics::read_decisions(memory.path(), "batches")) {
      if (decision.step < last) breach("expected ascending steps");
      last = decision.step;
      if (!std::ranges::all_of(decision.values, [](double v) { return std::isfinite(v); }))
        breach("expected finite values");
    }
  });
}

/// The number of samples must be as requested, and labels below `classes`.
void check_samples(const data::LabelledBytes& samples, std::size_t count, std::size_t values,
                   int classes) {
  if (samples.labels.size() != count || samples.pixels.size() != count * values)
    breach("expected as many samples as asked for");
  if (std::ranges::any_of(samples.labels, [&](std::uint8_t label) { return label >= classes; }))
    breach("expected labels below the classes");
}

/// A byte for the samples, one for the side of an image, two for the bytes of labels; the labels'
/// file; the images' file. Either may be gzip.
void read_idx(Bytes bytes) {
  constexpr std::size_t kPrefix = 4;
  if (bytes.size() < kPrefix) return;
  const std::size_t count = bytes[0] % 32;
  const int side = bytes[1] % 9 + 1;
  const std::size_t split =
      std::min<std::size_t>(bytes[2] + 256u * bytes[3], bytes.size() - kPrefix);
  static const MemoryFile labels, images;
  labels.hold(bytes.subspan(kPrefix, split));
  images.hold(bytes.subspan(kPrefix + split));
  expect(Kind::data, [&] {
    constexpr int kClasses = 10;
    const data::ImageShape shape{1, side, side};
    check_samples(data::read_idx(images.path(), labels.path(), count, shape, kClasses, "a remedy"),
                  count, shape.values(), kClasses);
  });
}

/// A byte for the records and the format, then a file, which may be gzip.
void read_cifar(Bytes bytes) {
  if (bytes.empty()) return;
  const std::size_t records = bytes[0] % 4;
  const bool fine = bytes[0] % 8 >= 4;
  static const MemoryFile file;
  file.hold(bytes.subspan(1));
  expect(Kind::data, [&] {
    const data::CifarFormat format = fine ? data::CifarFormat{2, 100} : data::CifarFormat{1, 10};
    const std::array<std::filesystem::path, 1> files = {file.path()};
    check_samples(data::read_cifar(files, records, format, "a remedy"), records, 3 * 32 * 32,
                  format.classes);
  });
}

/// A NumPy file. Accepted values must fill the file, and a number must be the same in every type.
void read_array(Bytes bytes) {
  static const MemoryFile memory;
  memory.hold(bytes);
  expect(Kind::data, [&] {
    const data::NpyFile file(memory.path());
    if (file.size() * data::bytes_of(file.type()) >= bytes.size())
      breach("expected as many values as the file holds");
    std::vector<float> floats(file.size());
    std::vector<double> doubles(file.size());
    file.read(0, floats);
    file.read(0, doubles);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const bool finite = std::isfinite(floats[i]);
      if (finite && std::abs(static_cast<double>(floats[i]) - doubles[i]) >
                        1e-6 * std::abs(doubles[i]) + 1e-44)
        breach("expected the same number as float and as double");
    }
    std::vector<std::int64_t> whole(file.size());
    if (data::is_whole(file.type())) file.read(0, whole);
  });
}

/// A table of numbers. Accepted numbers must be finite and fill whole rows.
void read_table(Bytes bytes) {
  static const MemoryFile memory;
  memory.hold(bytes);
  expect(Kind::data, [&] {
    const data::CsvTable table = data::read_csv(memory.path());
    if (table.rows() == 0 || table.values.size() != table.rows() * table.columns ||
        2 * table.values.size() > bytes.size() + 1)
      breach("expected whole rows, and not more numbers than the file has room for");
    if (!table.names.empty() && table.names.size() != table.columns)
      breach("expected a name for each column");
    if (!std::ranges::all_of(table.values, [](double v) { return std::isfinite(v); }))
      breach("expected finite values");
    (void)table.place(table.rows() - 1, table.columns - 1);
  });
}

/// A byte for the task, then x_train.npy; y_train.npy and both test files are of four samples.
void read_arrays(Bytes bytes) {
  if (bytes.empty()) return;
  static const MemoryFolder folder({"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"});
  const std::string file = text_of(bytes.subspan(1));
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
  const std::string labels = std::string("\x93NUMPY\x01\x00", 8) +
                             static_cast<char>(header.size()) + '\0' + header +
                             std::string("\0\1\1\0", 4);
  const bool targets = bytes[0] % 2 == 1;  // the file is that of the targets
  folder.hold("x_train.npy", targets ? labels : file);
  folder.hold("x_test.npy", targets ? labels : file);
  folder.hold("y_train.npy", targets ? file : labels);
  folder.hold("y_test.npy", targets ? file : labels);
  constexpr std::array kTargets = {data::TargetKind::classes, data::TargetKind::flags,
                                   data::TargetKind::values, data::TargetKind::any};
  expect(Kind::data, [&] {
    const data::DatasetPair pair = data::open_dataset(
        {.set = data::sets::arrays, .path = folder.path(), .target = kTargets[bytes[0] / 2 % 4]});
    data::Batch batch;
    const std::vector<std::size_t> all = {0, 1, 2, 3};
    pair.train->read(all, std::nullopt, batch);
    if (batch.size() != 4 || pair.test->size() != 4) breach("expected four samples");
    for (const int label : data::labels_of(*pair.train))
      if (label < 0 || (label > 0 && label >= pair.train->classes()))
        breach("expected labels below the classes");
  });
}

/// A byte for the number of values, then a layout's text. An accepted layout must cover the values.
void read_layout(Bytes bytes) {
  if (bytes.empty()) return;
  analyze::DumpedGradient gradient;
  gradient.values.resize(bytes[0] + 1u);
  expect(Kind::data, [&] {
    analyze::parse_gradient_layout(text_of(bytes.subspan(1)), "fuzz", gradient);
    std::size_t end = 0;
    for (const TensorSlice& slice : gradient.layout) {
      if (slice.offset != end || slice.count == 0) breach("expected tensors one after the other");
      end += slice.count;
    }
    if (end != gradient.values.size()) breach("expected tensors of all values");
  });
}

/// The report about a run in every format: without markup from the run, and with valid JSON.
void check_report(const std::vector<report::Run>& runs) {
  const std::vector<report::Group> groups = report::groups_of(runs);
  figures::Page page;
  page.title = runs.front().name;
  page.warnings = report::warnings_of(groups);
  page.results = {report::comparison_table(groups), report::starts_table(runs),
                  report::details_table(groups)};
  page.published = report::published_tables(report::table_names(), groups);
  page.background = {report::conditions_table(runs), report::settings_table(groups),
                     report::runs_table(groups)};
  for (const figures::Table& table : page.results)
    (void)(figures::as_text(table) + figures::as_csv(table) + figures::as_markdown(table));
  if (figures::as_html(page).find("<script") != std::string::npos) breach("expected no script");
  report::Drawings drawings = report::drawings_of(groups);
  report::draw_interruptions(runs, drawings);
  if (!nlohmann::json::accept(report::as_json(groups, page.published, {}, {}, page.warnings)))
    breach("expected JSON");
}

/// A run's config, records, summary and starts, one text each.
void read_run(Bytes bytes) {
  static const std::vector<std::string> names = {"config.json", "metrics.jsonl", "summary.json",
                                                 "starts.jsonl"};
  static const MemoryFolder folder(names);
  std::vector<std::string> texts = texts_of(bytes, names.size());
  texts.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) folder.hold(names[i], texts[i]);
  expect(Kind::data, [&] {
    const report::Run run = report::read_run(folder.path());
    if (!report::is_empty(run)) check_report({run});
  });
}

/// Row by row in memory of its own, unless the sizes ask for more than a file of this length has.
void copy_tensor(const weights::Tensor& tensor, std::size_t most_bytes) {
  std::size_t bytes = weights::element_bytes(tensor.type);
  for (const std::int64_t size : tensor.sizes) {
    if (size < 0) breach("expected sizes from 0 on");
    const auto side = static_cast<std::size_t>(size);
    if (side != 0 && bytes > most_bytes / side) return;
    bytes *= side;
  }
  std::vector<std::byte> out(bytes);
  weights::copy_row_major(tensor, out);
}

/// A byte, then a file of weights if it is even, else a pickle for an archive with right checksums
/// and two storages.
void read_weights(Bytes bytes) {
  if (bytes.empty()) return;
  std::string file = text_of(bytes.subspan(1));
  if (bytes[0] % 2 == 1)
    file = support::torch_archive(file, {std::string(24, '\1'), std::string(80, '\2')});
  expect(Kind::data, [&] {
    const auto held = std::as_bytes(std::span(file));
    const weights::StateDict dict({held.begin(), held.end()}, "fuzz");
    for (const weights::Tensor& tensor : dict.tensors()) copy_tensor(tensor, 16 * file.size());
  });
}

/// A byte, then an archive of TorchScript if it is even, else two bytes for the length of a pickle,
/// the pickle and code, for an archive with right checksums: the pickle is that of the constants if
/// the byte's second bit is set. What is given to LibTorch must be accepted again.
void read_script(Bytes bytes) {
  constexpr std::size_t kPrefix = 3;
  if (bytes.empty()) return;
  std::string file = text_of(bytes.subspan(1));
  if (bytes[0] % 2 == 1) {
    if (bytes.size() < kPrefix) return;
    const std::size_t split =
        std::min<std::size_t>(bytes[1] + 256u * bytes[2], bytes.size() - kPrefix);
    support::ScriptParts parts;
    (bytes[0] % 4 == 3 ? parts.constants : parts.data) = text_of(bytes.subspan(kPrefix, split));
    if (const std::string code = text_of(bytes.subspan(kPrefix + split)); !code.empty())
      parts.code = code;
    parts.more = {{"constants/0", std::string(24, '\1')}};
    file = parts.archive();
  }
  std::string checked;
  expect(Kind::data,
         [&] { checked = weights::checked_script(std::as_bytes(std::span(file)), "fuzz"); });
  if (checked.empty()) return;
  if (weights::checked_script(std::as_bytes(std::span(checked)), "checked").empty())
    breach("expected an archive");
}

/// A byte for the channels and one for the part of the picture, then a picture's file. A part that
/// is decoded must have the pixels that it says.
void read_picture(Bytes bytes) {
  if (bytes.size() < 2) return;
  const int channels = bytes[0] % 2 == 0 ? 3 : 1, part_of = 1 + bytes[1] % 4;
  expect(Kind::data, [&] {
    const auto picture = data::open_picture(bytes.subspan(2), {.max_pixels = 1 << 20});
    const int width = picture->width(), height = picture->height();
    const int left = width - 1 - (width - 1) / part_of, top = height - 1 - (height - 1) / part_of;
    const data::PixelArea area{left, top, width - left, height - top};
    data::PicturePart part;
    picture->decode(area, 8, channels, part);
    const auto values = static_cast<std::size_t>(part.width) *
                        static_cast<std::size_t>(part.height) *
                        static_cast<std::size_t>(part.channels);
    const int r = part.reduction;
    const bool whole = r * part.left <= left && r * part.top <= top &&
                       r * (part.left + part.width) >= width &&
                       r * (part.top + part.height) >= height;
    if (part.channels != channels || part.pixels.size() != values || !whole)
      breach("expected the part that was asked for");
    std::array<std::uint8_t, 3 * 8 * 8> out;
    data::Resizer().resize(part, data::centre_of(data::framing_of(channels, 8, {}), width, height),
                           8, 8, false, out.data());
  });
}

/// An archive of samples. Each of them must lie in it.
void read_shards(Bytes bytes) {
  static const std::vector<std::string> names = {"train-0.tar"};
  static const MemoryFolder folder(names);
  folder.hold(names[0], text_of(bytes));
  expect(Kind::data, [&] {
    const data::PictureLists lists = data::list_shards({.path = folder.path()});
    std::vector<std::uint8_t> content;
    for (std::size_t i = 0; i < lists.train.size(); ++i) {
      lists.train.read(i, content);
      if (content.size() > bytes.size()) breach("expected pictures inside the archive");
    }
  });
}

#ifdef EQT_FUZZ_CHECKPOINT
/// A number of the file, see docs/checkpoints.md.
template <typename T>
T number_at(std::span<const std::byte> file, std::size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}
void put_number(std::span<std::byte> file, std::size_t at, std::uint64_t value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

/// Corrects length and hashes where possible; otherwise nothing after the first hash would be read.
void seal(std::span<std::byte> file) {
  constexpr std::size_t kHead = 72, kEntry = 20;
  if (file.size() < kHead) return;
  put_number(file, 48, file.size());
  const auto table = number_at<std::uint64_t>(file, 40);
  if (table >= kHead && table <= file.size()) {
    std::size_t section = kHead;
    for (std::size_t entry = table; entry <= file.size() && file.size() - entry >= kEntry;) {
      const auto bytes = number_at<std::uint64_t>(file, entry + 4);
      if (bytes > table - section) break;
      put_number(file, entry + 12, checksum(file.subspan(section, bytes)));
      section += bytes;
      entry += kEntry + number_at<std::uint16_t>(file, entry + 2);
    }
    put_number(file, 56, checksum(file.subspan(table)));
  }
  put_number(file, 64, checksum(file.first(64)));
}

/// A byte that says whether hashes shall fit, then a file. Every section must lie in it.
void read_checkpoint(Bytes bytes) {
  if (bytes.empty()) return;
  const auto given = std::as_bytes(bytes.subspan(1));
  std::vector<std::byte> held(given.begin(), given.end());
  if (bytes[0] % 2 == 1) seal(held);
  expect(Kind::data, [&] {
    (void)checkpoint::read_head(
        std::span(held).first(std::min(held.size(), checkpoint::head_bytes())), held.size(),
        "fuzz");
    const checkpoint::StateFile file(held, "fuzz");
    for (const checkpoint::Section& section : file.sections()) {
      const bool inside = section.bytes.empty() || (section.bytes.data() >= held.data() &&
                                                    section.bytes.data() + section.bytes.size() <=
                                                        held.data() + held.size());
      if (!inside || file.find(section.name) != &section) breach("expected sections of the file");
    }
  });
}
#endif

template <void (*kReader)(Bytes)>
void read_data(Bytes bytes) {
  expect(Kind::data, [&] { kReader(bytes); });
}

struct Reader {
  std::string_view name;
  void (*read)(Bytes);
};
constexpr Reader kReaders[] = {
    {"config", read_config},
    {"graph", read_graph},
    {"cluster", read_cluster},
    {"decisions", read_decisions},
    {"idx", read_idx},
    {"cifar", read_cifar},
    {"array", read_array},
    {"table", read_table},
    {"arrays", read_arrays},
    {"layout", read_layout},
    {"run", read_run},
    {"weights", read_weights},
    {"script", read_script},
    {"picture", read_picture},
    {"shards", read_shards},
    {"texts", read_data<fuzz::read_texts>},
    {"vocabulary", read_data<fuzz::read_vocabulary>},
    {"encoder", read_data<fuzz::read_encoder>},
#ifdef EQT_FUZZ_CHECKPOINT
    {"checkpoint", read_checkpoint},
#endif
};

const Reader* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kReader = "--reader=";
  const std::string_view first = *argc > 1 ? (*argv)[1] : "";
  if (first == "--list") {
    for (const Reader& reader : kReaders) fmt::print("{}\n", reader.name);
    std::exit(0);
  }
  for (const Reader& reader : kReaders)
    if (first.starts_with(kReader) && first.substr(kReader.size()) == reader.name) chosen = &reader;
  if (chosen != nullptr) return 0;
  fmt::print(stderr, "reader_fuzz: expected --list or --reader=NAME first, found \"{}\"\n", first);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->read({data, size});
  return 0;
}
