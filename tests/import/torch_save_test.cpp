#include "import/torch_save.h"

#include <gtest/gtest.h>

#include "import/pickle.h"
#include "import/zip_builder.h"
#include "toroid/error.h"

namespace toroid::import {
namespace {

std::string n(uint64_t value, int bytes) { return ZipBuilder::number(value, bytes); }
std::string text(const std::string& s) { return "X" + n(s.size(), 4) + s; }
std::string integer(int i) { return "J" + n(static_cast<uint32_t>(i), 4); }

// Pickle of torch._utils._rebuild_tensor_v2(storage, offset, (rows, columns), (stride, 1), False, OrderedDict()).
std::string tensor(const std::string& storage_class, const std::string& key, int offset, int rows, int columns) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage_class + "\n" + text(key) + text("cpu") +
         integer(6) + "tQ" + integer(offset) + integer(rows) + integer(columns) + "\x86" + integer(columns) + integer(1) + "\x86\x89" +
         "ccollections\nOrderedDict\n)RtR";
}

std::string archive(const std::string& pickle, const std::string& storage = std::string(24, '\1')) {
  return ZipBuilder{}.build(
      {{"archive/data.pkl", "\x80\x02" + pickle + "."}, {"archive/byteorder", "little"}, {"archive/data/0", storage}});
}

std::string error_of(const std::string& file) {
  return message_of<UserError>([&] { read_torch_save(bytes_of(file), "t.pt"); });
}

TEST(Pickle, SharedObjectsComeFromTheMemo) {
  const auto pickle = Pickle::parse(bytes_of("\x80\x02]q" + n(5, 1) + "(K\x01h\x05\x8a\x02\xff\xff\x88Ne."), "t");
  const PickleValue& list = pickle.root();
  ASSERT_EQ(list.items.size(), 5u);
  EXPECT_EQ(list.items[0]->integer, 1);
  EXPECT_EQ(list.items[1], &list);
  EXPECT_EQ(list.items[2]->integer, -1);
  EXPECT_EQ(list.items[3]->kind, PickleKind::Bool);
}

TEST(Pickle, RefusesOtherOpcodesAndDamage) {
  for (const std::string stream : {"", "(", "\x80\x02", "S'x'\n.", "i__main__\nX\n.", "R.", "t.", "h\x01.", "a.", "X\xff\xff\xff\xff."})
    EXPECT_THROW(Pickle::parse(bytes_of(stream), "t"), UserError) << stream;
}

TEST(TorchSave, ReadsADictOfTensorsAndKeepsAliases) {
  const std::string file =
      archive("}(" + text("w") + tensor("FloatStorage", "0", 0, 2, 3) + text("v") + tensor("FloatStorage", "0", 3, 1, 3) + "u");
  const auto records = read_torch_save(bytes_of(file), "t.pt");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "w");
  EXPECT_EQ(records[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(records[0].bytes().size(), 24u);
  EXPECT_EQ(records[1].offset, 3);
  EXPECT_EQ(records[1].bytes().data(), records[0].storage.data() + 12);
  EXPECT_EQ(records[0].storage_id, records[1].storage_id);
}

TEST(TorchSave, NestedContainersGiveDottedNames) {
  const std::string file =
      archive("(" + tensor("LongStorage", "0", 0, 1, 3) + "]}" + text("k") + tensor("BoolStorage", "0", 0, 1, 3) + "sat");
  const auto records = read_torch_save(bytes_of(file), "t.pt");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "0");
  EXPECT_EQ(records[1].name, "1.0.k");
  EXPECT_EQ(records[1].dtype, DType::Bool);
}

TEST(TorchSave, RefusesWhatIsNotATensor) {
  EXPECT_NE(error_of(archive("}" + text("w") + "cos\nsystem\n(" + text("x") + "tRs")).find("os.system is not supported"),
            std::string::npos);
  EXPECT_NE(error_of(archive("}" + text("w") + tensor("QInt8Storage", "0", 0, 2, 3) + "s")).find("torch.QInt8Storage"), std::string::npos);
}

TEST(TorchSave, RefusesGeometryOutsideTheStorage) {
  EXPECT_EQ(error_of(archive("}" + text("w") + tensor("FloatStorage", "0", 0, 2, 3) + "s")), "");
  EXPECT_NE(error_of(archive("}" + text("w") + tensor("FloatStorage", "0", 1, 2, 3) + "s")).find("beyond the 6 f32 elements"),
            std::string::npos);
  EXPECT_NE(error_of(archive("}" + text("w") + tensor("FloatStorage", "0", -1, 2, 3) + "s")), "");
  EXPECT_NE(error_of(archive("}" + text("w") + tensor("FloatStorage", "0", 0, 2, 3) + "s", "")).find("weights are missing"),
            std::string::npos);
  EXPECT_NE(error_of(archive("}" + text("w") + tensor("FloatStorage", "7", 0, 2, 3) + "s")), "");
}

TEST(TorchSave, AListThatHoldsItselfEnds) {
  EXPECT_NE(error_of(archive("]q\x01h\x01"
                             "a"))
                .find("levels of nesting"),
            std::string::npos);
}

}  // namespace
}  // namespace toroid::import
