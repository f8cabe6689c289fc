#include "import/pt2_archive.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/safetensors.h"
#include "import/zip.h"
#include "import/zip_builder.h"
#include "toroid/error.h"

namespace toroid::import {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

const std::string kMeta =
    R"({"dtype":7,"sizes":[{"as_int":2}],"requires_grad":false,"device":{"type":"cpu","index":null},"strides":[{"as_int":1}],)"
    R"("storage_offset":{"as_int":0},"layout":7})";

// y = clamp(x + w): one parameter, one input of symbolic length.
const std::string kProgram =
    R"({"schema_version":{"major":8,"minor":20},"verifiers":["TRAINING"],"torch_version":"2.14","opset_version":{"aten":10},)"
    R"("range_constraints":{"s0":{"min_val":2,"max_val":null},"s1":{"min_val":0,"max_val":9223372036854775806}},"graph_module":{"graph":{)"
    R"("inputs":[{"as_tensor":{"name":"p_w"}},{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"y"}}],"nodes":[)"
    R"({"target":"torch.ops.aten.add.Tensor","inputs":[{"name":"self","arg":{"as_tensor":{"name":"x"}},"kind":1},)"
    R"({"name":"other","arg":{"as_tensor":{"name":"p_w"}},"kind":1}],"outputs":[{"as_tensor":{"name":"a"}}],"metadata":{)"
    R"("stack_trace":"File \"/u/net.py\", line 12, in f\n  x\n  File \"/p/torch/nn.py\", line 3, in g\n","nn_module_stack":"a,,T;b,enc.0,U"}},)"
    R"({"target":"torch.ops.aten.clamp.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"a"}}},)"
    R"({"name":"max","arg":{"as_float":Infinity},"kind":2}],"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{}}],)"
    R"("tensor_values":{"p_w":)" +
    kMeta + R"(,"x":)" + kMeta +
    R"j(,"y":{"dtype":7,"sizes":[{"as_expr":{"expr_str":"Symbol('s0', integer=True)",)j"
    R"("hint":{"as_int":5}}}],"strides":[{"as_int":1}],"layout":7}},"sym_int_values":{},"sym_bool_values":{}},"signature":{"input_specs":[)"
    R"({"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],)"
    R"("output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}]},"module_call_graph":[{"fqn":"","signature":{"inputs":[],"outputs":[],)"
    R"("in_spec":"[1,{\"type\":\"tuple\",\"context\":\"null\",\"children_spec\":[{\"type\":\"tuple\",\"context\":\"null\",\"children_spec\":[)"
    R"({\"type\":null,\"context\":null,\"children_spec\":[]}]},{\"type\":\"dict\",\"context\":\"[]\",\"children_spec\":[]}]}]",)"
    R"("out_spec":"[1,{\"type\":\"Out\",\"context\":\"[\\\"logits\\\"]\",\"children_spec\":[{\"type\":null,\"context\":null,\"children_spec\":[]}]}]",)"
    R"("forward_arg_names":["ids"]}}]}})";

const std::string kConfig = R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)" + kMeta + "}}}";

struct Files {
  std::string program = kProgram, config = kConfig, weight = std::string(8, 'w');

  std::string zip() const {
    return ZipBuilder{}.build({{"net/archive_format", "pt2"},
                               {"net/byteorder", "little"},
                               {"net/models/model.json", program},
                               {"net/data/weights/model_weights_config.json", config},
                               {"net/data/weights/weight_0", weight}});
  }
  std::string error() const {
    const std::string file = zip();
    return message_of<UserError>([&] { Pt2Archive::from_bytes(bytes_of(file), "net.pt2"); });
  }
};

std::string error_of(const Entries& entries) {
  const std::string file = ZipBuilder{}.build(entries);
  return message_of<UserError>([&] { Pt2Archive::from_bytes(bytes_of(file), "net.pt2"); });
}

std::filesystem::path data(const char* name) { return std::filesystem::path(TOROID_SOURCE_DIR) / "tests/data/import" / name; }

TEST(Pt2Archive, ProgramIsParsed) {
  const std::string file = Files{}.zip();
  const auto archive = Pt2Archive::from_bytes(bytes_of(file), "net.pt2");
  const ExportedProgram& p = archive.program();
  EXPECT_EQ(archive.layout(), Pt2Layout::Raw);
  EXPECT_EQ(p.schema_minor, 20);
  EXPECT_EQ(p.verifiers, std::vector<std::string>{"TRAINING"});
  ASSERT_EQ(p.graph.nodes.size(), 2u);
  const ExportedNode& add = p.graph.nodes[0];
  EXPECT_EQ(add.target, "torch.ops.aten.add.Tensor");
  EXPECT_EQ(add.source, "net.py:12");
  EXPECT_EQ(add.module, "enc.0");
  EXPECT_EQ(add.find_input("other")->get<TensorArg>()->name, "p_w");
  EXPECT_EQ(add.find_input("alpha"), nullptr);
  const NamedArgument& max = p.graph.nodes[1].inputs[1];
  EXPECT_TRUE(max.is_keyword);
  EXPECT_EQ(max.arg.tag(), "as_float");
  EXPECT_GT(*max.arg.get<double>(), 1e300);
  const SymInt& size = p.graph.tensor_values.at("y").sizes[0];
  EXPECT_EQ(size.expr->name, "s0");
  EXPECT_EQ(size.value, 5);
  EXPECT_EQ(p.range_constraints.at("s0").min, 2);
  EXPECT_EQ(p.range_constraints.at("s0").max, std::nullopt);
  EXPECT_EQ(p.range_constraints.at("s1").max, std::nullopt);
  EXPECT_EQ(p.input_names, std::vector<std::string>{"ids"});
  EXPECT_EQ(p.output_names, std::vector<std::string>{"logits"});
  EXPECT_EQ(archive.tensor_of(p.input_specs[0]).bytes().data(), archive.weights()[0].storage.data());
  EXPECT_TRUE(archive.sample_inputs().empty());
}

// The same module exported by PyTorch 2.6 and 2.14: the embedding and the output layer share one weight.
TEST(Pt2Archive, BothLayoutsGiveTheSameTensors) {
  const auto flat = Pt2Archive::open(data("tied_2.6.pt2")), raw = Pt2Archive::open(data("tied_2.14.pt2"));
  EXPECT_EQ(flat.layout(), Pt2Layout::Flat);
  EXPECT_EQ(raw.layout(), Pt2Layout::Raw);
  const auto inputs = SafetensorsReader::open(data("tied_in.safetensors"));
  for (const Pt2Archive* archive : {&flat, &raw}) {
    ASSERT_EQ(archive->weights().size(), 3u);
    EXPECT_EQ(archive->weights()[0].name, "count");
    const TensorRecord &embedding = archive->weights()[1], &linear = archive->weights()[2];
    EXPECT_EQ(embedding.name, "e.weight");
    EXPECT_EQ(embedding.sizes, (std::vector<int64_t>{50, 24}));
    EXPECT_EQ(embedding.storage_id, linear.storage_id);
    EXPECT_NE(embedding.storage_id, archive->constants()[0].storage_id);
    EXPECT_TRUE(std::ranges::equal(embedding.bytes(), raw.weights()[1].bytes()));
    EXPECT_TRUE(std::ranges::equal(archive->constants()[0].bytes(), raw.constants()[0].bytes()));
    EXPECT_EQ(archive->program().graph.nodes.size(), 5u);
    EXPECT_EQ(archive->program().graph.nodes[1].module, "e");
    const auto samples = archive->sample_inputs();
    ASSERT_EQ(samples.size(), 1u);
    EXPECT_TRUE(std::ranges::equal(samples[0].bytes(), inputs.tensors()[0].bytes()));
  }
}

// PyTorch 2.8 kept torch.save members but in folders: made here from the parts of a 2.6 file. An empty member stands for "none".
TEST(Pt2Archive, PickledTablesInFolders) {
  const FileBytes file(data("tied_2.6.pt2"));
  const auto flat = ZipArchive::open(file.span(), "tied");
  const auto part = [&](const char* name) { return std::string(flat.at(name).text()); };
  const Entries entries = {{"r/archive_format", "pt2\n"},
                           {"r/models/model.json", part("serialized_exported_program.json")},
                           {"r/data/weights/model.pt", part("serialized_state_dict.pt")},
                           {"r/data/constants/model.pt", part("serialized_constants.pt")},
                           {"r/data/sample_inputs/model.pt", ""}};
  const std::string image = ZipBuilder{}.build(entries);
  const auto archive = Pt2Archive::from_bytes(bytes_of(image), "r.pt2");
  EXPECT_EQ(archive.layout(), Pt2Layout::Pickled);
  EXPECT_EQ(archive.weights().size(), 3u);
  Entries without = entries;
  without[2].second.clear();
  EXPECT_NE(error_of(without).find("no weight named \"e.weight\""), std::string::npos) << error_of(without);
}

TEST(Pt2Archive, OtherContainersAreNamed) {
  EXPECT_NE(error_of({{"r/archive_format", "pt2"}, {"r/data/aotinductor/model/x.so", ""}}).find("AOTInductor package"), std::string::npos);
  EXPECT_NE(error_of({{"data/aotinductor/model/x.so", ""}, {"version", "1"}}).find("AOTInductor package"), std::string::npos);
  EXPECT_NE(error_of({{"word/document.xml", ""}}).find("not a PyTorch export archive"), std::string::npos);
}

TEST(Pt2Archive, OneOfSeveralModelsIsChosen) {
  const std::string file = ZipBuilder{}.build({{"archive_format", "pt2"}, {"models/a.json", "{}"}, {"models/b.json", "{}"}});
  const auto error = message_of<UserError>([&] { Pt2Archive::from_bytes(bytes_of(file), "net.pt2"); });
  EXPECT_NE(error.find("no model \"model\" in this archive; it holds: a, b"), std::string::npos) << error;
  EXPECT_NE(message_of<UserError>([&] { Pt2Archive::from_bytes(bytes_of(file), "n", "b"); }).find("models/b.json"), std::string::npos);
}

TEST(Pt2Archive, UnsupportedProgramsAreRefusedByName) {
  const auto program = [](const std::string& from, const std::string& to) {
    Files files;
    files.program = replaced(kProgram, from, to);
    return files.error();
  };
  EXPECT_EQ(Files{}.error(), "");
  EXPECT_NE(program(R"("major":8)", R"("major":9)").find("schema version 9.20 is not supported"), std::string::npos);
  EXPECT_NE(program(R"("dtype":7)", R"("dtype":29)").find("float8_e4m3fn is not supported"), std::string::npos);
  EXPECT_NE(program(R"("layout":7)", R"("layout":2)").find("layout 2"), std::string::npos);
  EXPECT_NE(program(R"({"as_tensor":{"name":"a"}})", R"({"as_what":1})").find("nodes[0].outputs[0]"), std::string::npos);
  EXPECT_NE(program(R"("parameter_name":"w")", R"("parameter_name":"v")").find("no weight named \"v\""), std::string::npos);
  EXPECT_NE(program(R"({"as_int":2})", R"({"as_int":3})").find("is not of the type of graph input"), std::string::npos);
  EXPECT_NE(program("Symbol('s0'", "Symbol('s0").find("$.graph_module.graph.tensor_values.y.sizes[0]"), std::string::npos);
}

TEST(Pt2Archive, BadWeightTablesAreRefused) {
  const auto config = [](const std::string& from, const std::string& to) {
    Files files;
    files.config = replaced(kConfig, from, to);
    return files.error();
  };
  EXPECT_NE(config("\"weight_0\"", "\"../weight_0\"").find("plain file name"), std::string::npos);
  EXPECT_NE(config("\"weight_0\"", "\"weight_1\"").find("weight_1"), std::string::npos);
  EXPECT_NE(config("\"use_pickle\":false", "\"use_pickle\":true").find("pickled tensor subclass"), std::string::npos);
  EXPECT_NE(config(kMeta, "null").find("custom objects"), std::string::npos);
  EXPECT_NE(config(R"({"as_int":2})", R"({"as_int":9223372036854775807})").find("beyond"), std::string::npos);
  Files fake;
  fake.weight = "";
  EXPECT_NE(fake.error().find("weights are missing"), std::string::npos);
}

}  // namespace
}  // namespace toroid::import
