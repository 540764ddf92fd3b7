// SPDX-License-Identifier: Apache-2.0
// The only source that includes oneDNN's headers.

#include <omp.h>

#include <algorithm>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "bench/onednn.hpp"
#include "core/clock.hpp"

namespace eqt::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using int8::ConvolutionShape;
using Tag = memory::format_tag;
using Type = memory::data_type;

/// Holds what the passes of a layer share: sizes as oneDNN has them, operands in plain layouts.
struct Sizes {
  dnnl::engine engine;
  ConvolutionShape shape;
  int samples;
  LayerIntegers integers;

  memory::dims x_dims() const { return {samples, shape.in_channels, shape.height, shape.width}; }
  memory::dims y_dims() const {
    return {samples, shape.out_channels, shape.out_height(), shape.out_width()};
  }
  memory::dims w_dims() const {
    return {shape.out_channels, shape.in_channels, shape.kernel, shape.kernel};
  }
  memory::dims strides() const { return {shape.stride, shape.stride}; }
  memory::dims before() const { return {shape.kernel / 2, shape.kernel / 2}; }
  memory::dims after() const {
    const auto frame = [&](int in, int out) {
      return std::max(0, (out - 1) * shape.stride + shape.kernel - in - shape.kernel / 2);
    };
    return {frame(shape.height, shape.out_height()), frame(shape.width, shape.out_width())};
  }
};

/// A primitive with its operands, and with those that are not read in a plain layout reordered.
struct Built {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  memory out;
  Tag plain;  // of the result
  std::string implementation;
};

memory converted(memory from, const memory::desc& to) {
  memory result(to, from.get_engine());
  dnnl::stream stream(from.get_engine());
  dnnl::reorder(from, result).execute(stream, from, result);
  stream.wait();
  return result;
}

/// `count` values of the type T, as oneDNN reads them from `to`.
template <typename T>
memory operand(const Sizes& layer, const memory::dims& dims, Type type, Tag tag,
               const memory::desc& to, std::function<T(std::size_t)> value) {
  memory plain({dims, type, tag}, layer.engine);
  T* const values = static_cast<T*>(plain.get_data_handle());
  const std::size_t count = plain.get_desc().get_size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
  return converted(plain, to);
}

memory x_operand(const Sizes& layer, const memory::desc& to) {
  const auto x = layer.integers.x;
  if (to.data_type() == Type::u8)
    return operand<std::uint8_t>(layer, layer.x_dims(), Type::u8, Tag::nhwc, to,
                                 [x](auto i) { return static_cast<std::uint8_t>(x[i] + 128); });
  return operand<float>(layer, layer.x_dims(), Type::f32, Tag::nhwc, to,
                        [x](auto i) { return static_cast<float>(x[i] + 128); });
}

memory error_operand(const Sizes& layer, const memory::desc& to) {
  const auto error = layer.integers.error;
  if (to.data_type() == Type::s8)
    return operand<std::int8_t>(layer, layer.y_dims(), Type::s8, Tag::nhwc, to,
                                [error](auto i) { return error[i]; });
  return operand<float>(layer, layer.y_dims(), Type::f32, Tag::nhwc, to,
                        [error](auto i) { return static_cast<float>(error[i]); });
}

memory weights_operand(const Sizes& layer, const memory::desc& to) {
  const auto w = layer.integers.weights;
  if (to.data_type() == Type::s8)
    return operand<std::int8_t>(layer, layer.w_dims(), Type::s8, Tag::ohwi, to,
                                [w](auto i) { return w[i]; });
  return operand<float>(layer, layer.w_dims(), Type::f32, Tag::ohwi, to,
                        [w](auto i) { return static_cast<float>(w[i]); });
}

/// Weights as the error of the input reads them, (C, O, kh, kw). @param turned  by 180 degrees
memory exchanged_weights(const Sizes& layer, const memory::desc& to, bool turned) {
  const std::int64_t o = layer.shape.out_channels, c = layer.shape.in_channels;
  const std::int64_t k = layer.shape.kernel;
  const auto w = layer.integers.weights;
  return operand<std::int8_t>(
      layer, {c, o, k, k}, Type::s8, Tag::oihw, to, [=, taps = k * k](std::size_t i) {
        const auto at = static_cast<std::int64_t>(i);
        const std::int64_t tap = at % taps, out = at / taps % o, in = at / taps / o;
        const std::int64_t read = turned ? taps - 1 - tap : tap;
        return w[static_cast<std::size_t>((out * taps + read) * c + in)];
      });
}

/// Sums of products leave as float32, each times its channel's scale, as ours do.
dnnl::primitive_attr channel_scales(int channels) {
  dnnl::primitive_attr attributes;
  attributes.set_output_scales(1 << 1, std::vector<float>(static_cast<std::size_t>(channels), 1));
  return attributes;
}

/// One of the ways to compute a pass.
struct Way {
  Tag images;  // layout of activations and errors; weights always have the one oneDNN likes best
  algorithm how;
  bool as_convolution = false;  // 8-bit errors of inputs: not as a deconvolution
};

Type type_of(Operands operands) { return operands == Operands::bf16 ? Type::bf16 : Type::f32; }

dnnl::convolution_forward::primitive_desc forward_of(const Sizes& l, Operands operands, Way way) {
  const bool low = operands == Operands::int8;
  const Type type = low ? Type::u8 : type_of(operands);
  const dnnl::convolution_forward::desc description(
      dnnl::prop_kind::forward_training, way.how, {l.x_dims(), type, way.images},
      {l.w_dims(), low ? Type::s8 : type, Tag::any},
      {l.y_dims(), low ? Type::f32 : type, way.images}, l.strides(), l.before(), l.after());
  if (low) return {description, channel_scales(l.shape.out_channels), l.engine};
  return {description, l.engine};
}

Built forward(const Sizes& l, Operands operands, Way way) {
  const auto made = forward_of(l, operands, way);
  memory out(made.dst_desc(), l.engine);
  return {dnnl::convolution_forward(made),
          {{DNNL_ARG_SRC, x_operand(l, made.src_desc())},
           {DNNL_ARG_WEIGHTS, weights_operand(l, made.weights_desc())},
           {DNNL_ARG_DST, out}},
          out,
          Tag::nhwc,
          made.impl_info_str()};
}

Built backward_input(const Sizes& l, Operands operands, Way way) {
  const Type type = type_of(operands);
  const dnnl::convolution_backward_data::desc description(
      way.how, {l.x_dims(), type, way.images}, {l.w_dims(), type, Tag::any},
      {l.y_dims(), type, way.images}, l.strides(), l.before(), l.after());
  const dnnl::convolution_backward_data::primitive_desc made(description, l.engine,
                                                             forward_of(l, operands, way));
  memory out(made.diff_src_desc(), l.engine);
  return {dnnl::convolution_backward_data(made),
          {{DNNL_ARG_DIFF_DST, error_operand(l, made.diff_dst_desc())},
           {DNNL_ARG_WEIGHTS, weights_operand(l, made.weights_desc())},
           {DNNL_ARG_DIFF_SRC, out}},
          out,
          Tag::nhwc,
          made.impl_info_str()};
}

template <typename Primitive>
Built low_backward_input(const Sizes& l, const typename Primitive::primitive_desc& made,
                         bool turned) {
  memory out(made.dst_desc(), l.engine);
  return {Primitive(made),
          {{DNNL_ARG_SRC, error_operand(l, made.src_desc())},
           {DNNL_ARG_WEIGHTS, exchanged_weights(l, made.weights_desc(), turned)},
           {DNNL_ARG_DST, out}},
          out,
          Tag::nhwc,
          made.impl_info_str()};
}

/// oneDNN's backward passes have no 8-bit operands, its forward ones of other layers do.
Built low_backward_input(const Sizes& l, Way way) {
  const memory::desc error(l.y_dims(), Type::s8, way.images);
  const memory::desc weights(
      {l.shape.in_channels, l.shape.out_channels, l.shape.kernel, l.shape.kernel}, Type::s8,
      Tag::any);
  const memory::desc dx(l.x_dims(), Type::f32, way.images);
  const auto attributes = channel_scales(l.shape.in_channels);
  const auto kind = dnnl::prop_kind::forward_training;
  if (way.as_convolution) {
    const dnnl::convolution_forward::desc description(kind, way.how, error, weights, dx,
                                                      l.strides(), l.before(), l.before());
    return low_backward_input<dnnl::convolution_forward>(l, {description, attributes, l.engine},
                                                         true);
  }
  const dnnl::deconvolution_forward::desc description(kind, algorithm::deconvolution_direct, error,
                                                      weights, dx, l.strides(), l.before(),
                                                      l.after());
  return low_backward_input<dnnl::deconvolution_forward>(l, {description, attributes, l.engine},
                                                         false);
}

Built weight_gradient(const Sizes& l, Operands operands, Way way) {
  const Type type = type_of(operands);
  const dnnl::convolution_backward_weights::desc description(
      way.how, {l.x_dims(), type, way.images}, {l.w_dims(), Type::f32, Tag::any},
      {l.y_dims(), type, way.images}, l.strides(), l.before(), l.after());
  const dnnl::convolution_backward_weights::primitive_desc made(description, l.engine,
                                                                forward_of(l, operands, way));
  memory out(made.diff_weights_desc(), l.engine);
  return {dnnl::convolution_backward_weights(made),
          {{DNNL_ARG_SRC, x_operand(l, made.src_desc())},
           {DNNL_ARG_DIFF_DST, error_operand(l, made.diff_dst_desc())},
           {DNNL_ARG_DIFF_WEIGHTS, out}},
          out,
          Tag::ohwi,
          made.impl_info_str()};
}

class BuiltPass final : public OneDnnPass {
 public:
  BuiltPass(const dnnl::engine& engine, Built built) : stream_(engine), built_(std::move(built)) {}

  void run() override {
    built_.primitive.execute(stream_, built_.arguments);
    stream_.wait();
  }

  std::vector<float> result() const override {
    const memory plain =
        converted(built_.out, {built_.out.get_desc().dims(), Type::f32, built_.plain});
    const float* const values = static_cast<const float*>(plain.get_data_handle());
    return {values, values + plain.get_desc().get_size() / sizeof(float)};
  }

  std::string implementation() const override { return built_.implementation; }

  /// The least time of a run, of those within a few milliseconds. [seconds]
  double trial() {
    run();
    double least = 1e30;
    const Stopwatch total;
    do {
      const WorkStopwatch watch;
      run();
      least = std::min(least, watch.seconds());
    } while (total.seconds() < 0.003);
    return least;
  }

 private:
  dnnl::stream stream_;
  Built built_;
};

Built built(const Sizes& layer, Pass pass, Operands operands, Way way) {
  if (pass == Pass::forward) return forward(layer, operands, way);
  if (pass == Pass::weight_gradient) return weight_gradient(layer, operands, way);
  if (operands == Operands::int8) return low_backward_input(layer, way);
  return backward_input(layer, operands, way);
}

std::vector<Way> ways_of(const ConvolutionShape& shape, Pass pass, Operands operands) {
  std::vector<Way> ways = {{Tag::any, algorithm::convolution_direct},
                           {Tag::nhwc, algorithm::convolution_direct}};
  if (operands == Operands::f32) ways.push_back({Tag::any, algorithm::convolution_auto});
  if (operands == Operands::int8 && pass == Pass::backward_input && shape.stride == 1)
    ways.push_back({Tag::any, algorithm::convolution_direct, true});
  return ways;
}

class Library final : public OneDnn {
 public:
  std::string version() const override {
    const dnnl::version_t* const v = dnnl::version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }

  std::string instructions() const override {
    switch (isa_) {
      case dnnl::cpu_isa::avx2:
        return "AVX2";
      case dnnl::cpu_isa::avx2_vnni:
        return "AVX2_VNNI";
      case dnnl::cpu_isa::avx512_core:
        return "AVX512_CORE";
      case dnnl::cpu_isa::avx512_core_vnni:
        return "AVX512_CORE_VNNI";
      case dnnl::cpu_isa::avx512_core_bf16:
        return "AVX512_CORE_BF16";
      case dnnl::cpu_isa::avx512_core_amx:
        return "AVX512_CORE_AMX";
      default:
        return "the processor's";
    }
  }

  std::unique_ptr<OneDnnPass> pass(const ConvolutionShape& shape, int samples, Pass pass,
                                   Operands operands, const LayerIntegers& integers) override {
    if (!has(pass, operands)) return nullptr;
    const Sizes layer = {engine_, shape, samples, integers};
    std::unique_ptr<BuiltPass> fastest;
    double least = 0;
    for (const Way way : ways_of(shape, pass, operands)) {
      try {
        auto made = std::make_unique<BuiltPass>(engine_, built(layer, pass, operands, way));
        const double seconds = made->trial();
        if (fastest && seconds >= least) continue;
        fastest = std::move(made);
        least = seconds;
      } catch (const dnnl::error& error) {
        if (error.status != dnnl_unimplemented) throw;
      }
    }
    return fastest;
  }

 private:
  bool has(Pass pass, Operands operands) const {
    if (operands == Operands::bf16) return among({"AVX512_CORE_BF16", "AVX512_CORE_AMX"});
    if (operands == Operands::f32 || pass == Pass::forward) return true;
    return pass == Pass::backward_input &&
           among({"AVX512_CORE_VNNI", "AVX512_CORE_BF16", "AVX512_CORE_AMX"});
  }
  bool among(std::initializer_list<std::string_view> names) const {
    return std::ranges::find(names, instructions()) != names.end();
  }

  dnnl::cpu_isa isa_ = dnnl::get_effective_cpu_isa();
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
};

}  // namespace

std::unique_ptr<OneDnn> make_onednn(int8::Kernels kernels) {
  omp_set_num_threads(1);
  if (kernels == int8::Kernels::avx2_pair) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  if (kernels == int8::Kernels::avx_vnni) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2_vnni);
  return std::make_unique<Library>();
}

}  // namespace eqt::bench
