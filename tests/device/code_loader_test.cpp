#include "device/cpu/code_loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "device/cpu/runtime_symbols.h"
#include "device/elf_builder.h"
#include "toroid/error.h"

namespace toroid::device {
namespace {

using testing::ElfBuilder;

constexpr uint32_t kGotPcRelX = 41, kRexGotPcRelX = 42;

std::string code(std::initializer_list<int> bytes) {
  std::string s;
  for (int b : bytes) s += char(b);
  return s;
}

// Anything that `call` throws must be the environment's error with `part` in its text.
template <class F>
void expect_environment_error(F call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error, expected: " << part;
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

int add_one(int x) { return x + 1; }

TEST(CodeLoader, RunsCodeWithoutRelocations) {
  ElfBuilder elf;
  int text = elf.section(SHF_EXECINSTR, code({0x8d, 0x04, 0x3f, 0xc3}));  // lea eax, [rdi + rdi]; ret
  elf.symbol("twice", text);
  auto loaded = LoadedCode::load(elf.build(), {});
  EXPECT_EQ(loaded->function<int(int)>("twice")(21), 42);
  EXPECT_EQ(loaded->find("thrice"), nullptr);
  expect_environment_error([&] { loaded->symbol("thrice"); }, "does not define \"thrice\"");
}

TEST(CodeLoader, Pc32ReachesConstants) {
  ElfBuilder elf;
  int text = elf.section(SHF_EXECINSTR, code({0x8b, 0x05, 0, 0, 0, 0, 0xc3}));  // mov eax, [rip + constant]; ret
  int constants = elf.section(0, std::string("\x11\x22\x33\x44\x2a\0\0\0", 8));
  elf.symbol("get", text);
  int section = elf.symbol("", constants, 0, STT_SECTION, STB_LOCAL);
  elf.relocate(text, 2, R_X86_64_PC32, section, 4 - 4);  // the second constant; the instruction ends 4 bytes behind the field
  EXPECT_EQ(LoadedCode::load(elf.build(), {})->function<int()>("get")(), 42);
}

TEST(CodeLoader, VariablesAreWritableAndZeroed) {
  ElfBuilder elf;
  // inc dword [rip + counter]; mov eax, [rip + counter]; ret
  int text = elf.section(SHF_EXECINSTR, code({0xff, 0x05, 0, 0, 0, 0, 0x8b, 0x05, 0, 0, 0, 0, 0xc3}));
  int bss = elf.section(SHF_WRITE, "", SHT_NOBITS, 64);
  elf.symbol("count", text);
  int counter = elf.symbol("counter", bss, 8, STT_OBJECT);
  elf.relocate(text, 2, R_X86_64_PC32, counter, -4);
  elf.relocate(text, 8, R_X86_64_PC32, counter, -4);
  auto loaded = LoadedCode::load(elf.build(), {});
  auto* count = loaded->function<int()>("count");
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(count(), 2);
  EXPECT_EQ(*static_cast<int*>(loaded->symbol("counter")), 2);
}

TEST(CodeLoader, Absolute64AndPc64) {
  ElfBuilder elf;
  int text = elf.section(SHF_EXECINSTR, code({0xb8, 7, 0, 0, 0, 0xc3}));
  int data = elf.section(SHF_WRITE, std::string(16, '\0'));
  int seven = elf.symbol("seven", text);
  elf.symbol("table", data, 0, STT_OBJECT);
  elf.relocate(data, 0, R_X86_64_64, seven);
  elf.relocate(data, 8, R_X86_64_PC64, seven, 3);
  auto loaded = LoadedCode::load(elf.build(), {});
  auto* table = static_cast<uint64_t*>(loaded->symbol("table"));
  uint64_t function = reinterpret_cast<uint64_t>(loaded->symbol("seven"));
  EXPECT_EQ(table[0], function);
  EXPECT_EQ(table[1], function + 3 - reinterpret_cast<uint64_t>(&table[1]));
  EXPECT_EQ(reinterpret_cast<int (*)()>(table[0])(), 7);
}

TEST(CodeLoader, CallsExternalFunctionsThroughStubs) {
  ElfBuilder elf;
  // sub rsp, 8; call f; add rsp, 8; ret
  int text = elf.section(SHF_EXECINSTR, code({0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3}));
  elf.symbol("call", text);
  elf.relocate(text, 5, R_X86_64_PLT32, elf.symbol("add_one", 0, 0, STT_NOTYPE), -4);
  ExternalSymbol offered[] = {{"other", nullptr}, {"add_one", reinterpret_cast<const void*>(&add_one)}};
  EXPECT_EQ(LoadedCode::load(elf.build(), offered)->function<int(int)>("call")(4), 5);
  expect_environment_error([&] { LoadedCode::load(elf.build(), runtime_symbols(), "my_kernel"); }, "my_kernel: it uses \"add_one\"");
}

TEST(CodeLoader, Plt32ToOwnFunctionNeedsNoStub) {
  ElfBuilder elf;
  int text = elf.section(SHF_EXECINSTR, code({0xe9, 0, 0, 0, 0, 0xb8, 9, 0, 0, 0, 0xc3}));  // jmp nine; nine: mov eax, 9; ret
  elf.symbol("jump", text);
  elf.relocate(text, 1, R_X86_64_PLT32, elf.symbol("nine", text, 5), -4);
  EXPECT_EQ(LoadedCode::load(elf.build(), {})->function<int()>("jump")(), 9);
}

TEST(CodeLoader, SlotsOfAddresses) {
  static int value = 77;
  for (uint32_t type : {uint32_t(R_X86_64_GOTPCREL), kGotPcRelX, kRexGotPcRelX}) {
    ElfBuilder elf;
    int text =
        elf.section(SHF_EXECINSTR, code({0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x8b, 0x00, 0xc3}));  // mov rax, [rip + slot]; mov eax, [rax]; ret
    elf.symbol("get", text);
    elf.relocate(text, 3, type, elf.symbol("value", 0, 0, STT_NOTYPE), -4);
    ExternalSymbol offered[] = {{"value", &value}};
    EXPECT_EQ(LoadedCode::load(elf.build(), offered)->function<int()>("get")(), 77) << type;
  }
}

TEST(CodeLoader, AbsoluteSymbolIn32Bits) {
  for (uint32_t type : {uint32_t(R_X86_64_32), uint32_t(R_X86_64_32S)}) {
    ElfBuilder elf;
    int text = elf.section(SHF_EXECINSTR, code({0xb8, 0, 0, 0, 0, 0xc3}));
    elf.symbol("get", text);
    elf.relocate(text, 1, type, elf.symbol("constant", SHN_ABS, 1234, STT_OBJECT), 1);
    EXPECT_EQ(LoadedCode::load(elf.build(), {})->function<int()>("get")(), 1235) << type;
  }
}

TEST(CodeLoader, RefusesWhatItCannotDo) {
  auto with = [](uint32_t type, uint64_t offset) {
    ElfBuilder elf;
    int text = elf.section(SHF_EXECINSTR, code({0xb8, 0, 0, 0, 0, 0xc3}));
    elf.relocate(text, offset, type, elf.symbol("get", text));
    return elf.build();
  };
  expect_environment_error([&] { LoadedCode::load(with(R_X86_64_32S, 1), {}); }, "R_X86_64_32S");
  expect_environment_error([&] { LoadedCode::load(with(R_X86_64_TPOFF32, 1), {}); }, "not supported");
  expect_environment_error([&] { LoadedCode::load(with(R_X86_64_PC32, 3), {}); }, "outside its section");
  expect_environment_error([&] { LoadedCode::load(with(R_X86_64_64, ~uint64_t(0)), {}); }, "outside its section");
  expect_environment_error([] { LoadedCode::load("", {}); }, "too few");
  expect_environment_error([] { LoadedCode::load(std::string(100, 'x'), {}); }, "not an ELF file");
  ElfBuilder both;
  both.section(SHF_EXECINSTR | SHF_WRITE, "x");
  expect_environment_error([&] { LoadedCode::load(both.build(), {}); }, "writable and executable");
  ElfBuilder huge;
  huge.section(SHF_WRITE, "", SHT_NOBITS, uint64_t(1) << 40);
  expect_environment_error([&] { LoadedCode::load(huge.build(), {}); }, "bytes");
}

// Every truncation, and many random damages, end in an error or in a load; never in a crash.
TEST(CodeLoader, DamagedFilesNeverCrash) {
  ElfBuilder elf;
  int text = elf.section(SHF_EXECINSTR, code({0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3}));
  int data = elf.section(SHF_WRITE, std::string(16, '\0'));
  int function = elf.symbol("call", text);
  elf.relocate(text, 5, R_X86_64_PLT32, elf.symbol("expf", 0, 0, STT_NOTYPE), -4);
  elf.relocate(data, 0, R_X86_64_64, function);
  const std::string good = elf.build();
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(LoadedCode::load(good.substr(0, n), runtime_symbols()), EnvironmentError) << n;
  std::mt19937 random(7);
  int loads = 0, errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (unsigned k = 0; k <= random() % 3; ++k) bad[random() % bad.size()] = char(random());
    try {
      LoadedCode::load(bad, runtime_symbols());
      ++loads;
    } catch (const EnvironmentError&) {
      ++errors;
    }
  }
  EXPECT_GT(loads, 0);
  EXPECT_GT(errors, 0);
}

// Each has its own constants, variables and stubs, and is there as long as somebody has it.
TEST(CodeLoader, SeveralAtOnceAreApart) {
  ElfBuilder constant, counter, caller;
  const int get = constant.section(SHF_EXECINSTR, code({0x8b, 0x05, 0, 0, 0, 0, 0xc3}));  // mov eax, [rip + constant]; ret
  const int numbers = constant.section(0, std::string("\x2a\0\0\0", 4));
  constant.symbol("get", get);
  constant.relocate(get, 2, R_X86_64_PC32, constant.symbol("", numbers, 0, STT_SECTION, STB_LOCAL), -4);
  // inc dword [rip + counter]; mov eax, [rip + counter]; ret
  const int count = counter.section(SHF_EXECINSTR, code({0xff, 0x05, 0, 0, 0, 0, 0x8b, 0x05, 0, 0, 0, 0, 0xc3}));
  const int cell = counter.symbol("counter", counter.section(SHF_WRITE, "", SHT_NOBITS, 4), 0, STT_OBJECT);
  counter.symbol("count", count);
  counter.relocate(count, 2, R_X86_64_PC32, cell, -4);
  counter.relocate(count, 8, R_X86_64_PC32, cell, -4);
  const int call = caller.section(SHF_EXECINSTR, code({0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3}));
  caller.symbol("call", call);
  caller.relocate(call, 5, R_X86_64_PLT32, caller.symbol("add_one", 0, 0, STT_NOTYPE), -4);
  const ExternalSymbol offered[] = {{"add_one", reinterpret_cast<const void*>(&add_one)}};
  const std::string bytes[] = {constant.build(), counter.build(), caller.build()};
  const ObjectCode objects[] = {{bytes[1], "first"}, {bytes[0], "constant"}, {bytes[1], "second"}, {bytes[2], "caller"}};
  auto loaded = LoadedCode::load_all(objects, offered);
  ASSERT_EQ(loaded.size(), 4u);
  auto* const first = loaded[0]->function<int()>("count");
  auto* const second = loaded[2]->function<int()>("count");
  EXPECT_EQ(first(), 1);
  EXPECT_EQ(first(), 2);
  EXPECT_EQ(second(), 1) << "a variable of its own";
  EXPECT_EQ(loaded[1]->function<int()>("get")(), 42);
  EXPECT_EQ(loaded[3]->function<int(int)>("call")(4), 5);
  const auto kept = loaded[2];
  loaded.clear();
  EXPECT_EQ(second(), 2);
  expect_environment_error([&] { LoadedCode::load_all(objects, {}); }, "caller: it uses \"add_one\"");
  EXPECT_TRUE(LoadedCode::load_all({}, {}).empty());
}

TEST(CodeLoader, OfferedFunctionsAreTheRightOnes) {
  auto find = [](std::string_view name) -> const void* {
    for (const ExternalSymbol& s : runtime_symbols()) {
      if (s.name == name) return s.address;
    }
    return nullptr;
  };
  ASSERT_NE(find("expf"), nullptr);
  EXPECT_FLOAT_EQ(reinterpret_cast<float (*)(float)>(const_cast<void*>(find("expf")))(1.0f), std::exp(1.0f));
  EXPECT_DOUBLE_EQ(reinterpret_cast<double (*)(double, double)>(const_cast<void*>(find("pow")))(2.0, 10.0), 1024.0);
  EXPECT_EQ(find("system"), nullptr);
}

}  // namespace
}  // namespace toroid::device
