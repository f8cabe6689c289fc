#include "device/cpu/code_loader.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"

namespace toroid::device {

namespace {

// More than any program needs, and inside the reach of 32-bit relative addresses.
constexpr size_t kMaxImageBytes = size_t(1) << 30;
constexpr size_t kStubBytes = 16, kImageAlignment = 64;
// Values of newer linkers' headers.
constexpr uint32_t kGotPcRelX = 41, kRexGotPcRelX = 42;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

std::string relocation_name(uint32_t type) {
  switch (type) {
    case R_X86_64_32:
      return "R_X86_64_32";
    case R_X86_64_32S:
      return "R_X86_64_32S";
    case R_X86_64_PC32:
      return "R_X86_64_PC32";
    case R_X86_64_PLT32:
      return "R_X86_64_PLT32";
    case R_X86_64_GOTPCREL:
      return "R_X86_64_GOTPCREL";
    case kGotPcRelX:
      return "R_X86_64_GOTPCRELX";
    case kRexGotPcRelX:
      return "R_X86_64_REX_GOTPCRELX";
    default:
      return fmt::format("type {}", type);
  }
}

bool needs_slot(uint32_t type) { return type == R_X86_64_GOTPCREL || type == kGotPcRelX || type == kRexGotPcRelX; }

// Where code lies: first what may be executed and not written to, then what may be written to.
class Image {
 public:
  explicit Image(size_t bytes) : bytes_(bytes) {
    void* base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) fail<EnvironmentError>("cannot map {} bytes for code: {}", bytes_, std::strerror(errno));
    base_ = static_cast<uint8_t*>(base);
  }
  ~Image() { ::munmap(base_, bytes_); }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  uint8_t* base() const { return base_; }
  void make_executable(size_t bytes) const {
    if (bytes && ::mprotect(base_, bytes, PROT_READ | PROT_EXEC) != 0)
      fail<EnvironmentError>("cannot make code executable: {} (does a security policy forbid generated code?)", std::strerror(errno));
  }

 private:
  uint8_t* base_ = nullptr;
  const size_t bytes_;
};

}  // namespace

// Loads one object: reads and checks its tables, lays its sections out in an image, copies and relocates them there.
class CodeLinker {
 public:
  CodeLinker(const ObjectCode& object, std::span<const ExternalSymbol> externals)
      : file_(object.bytes), externals_(externals), what_(object.what), code_(new LoadedCode) {
    code_->what_ = what_;
    read_sections();
    read_symbols();
    scan_relocations();
  }

  // Instructions, constants right behind them, then slots and stubs: from offset `at` of the image to the one that is returned.
  size_t lay_out_fixed_parts(size_t at) {
    const size_t begin = at;
    at = place(at, [](uint64_t flags) { return (flags & SHF_EXECINSTR) && !(flags & SHF_WRITE); });
    at = place(at, [](uint64_t flags) { return !(flags & SHF_EXECINSTR) && !(flags & SHF_WRITE); });
    slots_at_ = round_up(at, 64);
    stubs_at_ = round_up(slots_at_ + size_t(slot_count_) * sizeof(uint64_t), kStubBytes);
    at = stubs_at_ + size_t(slot_count_) * kStubBytes;
    code_->bytes_ += at - begin;
    return at;
  }

  size_t lay_out_variables(size_t at) {
    const size_t end = place(at, [](uint64_t flags) { return (flags & SHF_WRITE) != 0; });
    code_->bytes_ += end - at;
    return end;
  }

  std::shared_ptr<const LoadedCode> link(const std::shared_ptr<const Image>& image) {
    code_->image_ = image;
    base_ = image->base();
    copy();
    resolve_symbols();
    apply_relocations();
    return code_;
  }

 private:
  struct Section {
    Elf64_Shdr header;
    bool loaded = false;
    size_t offset = 0;  // in the image
  };

  template <class... A>
  [[noreturn]] void bad(fmt::format_string<A...> f, A&&... a) const {
    fail<EnvironmentError>(
        "cannot load the object code of {}: {}; the file is damaged or was made by an unsupported compiler (remove it to have it built "
        "again)",
        what_, fmt::format(f, std::forward<A>(a)...));
  }

  bool inside(uint64_t offset, uint64_t size, uint64_t limit) const { return offset <= limit && size <= limit - offset; }

  // Entry `index` of a table at `offset`. The caller has checked the table's bounds.
  template <class T>
  T entry(uint64_t offset, uint64_t index) const {
    T t;
    std::memcpy(&t, file_.data() + offset + index * sizeof(T), sizeof(T));
    return t;
  }

  void read_sections() {
    if (file_.size() < sizeof(Elf64_Ehdr)) bad("{} bytes are too few for an ELF header", file_.size());
    auto h = entry<Elf64_Ehdr>(0, 0);
    if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) bad("it is not an ELF file");
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64 || h.e_type != ET_REL) {
      bad("expected a relocatable file for x86-64, found class {}, machine {}, type {}", int(h.e_ident[EI_CLASS]), h.e_machine, h.e_type);
    }
    if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum == 0)
      bad("the section table is missing or has entries of {} bytes", h.e_shentsize);
    if (!inside(h.e_shoff, uint64_t(h.e_shnum) * sizeof(Elf64_Shdr), file_.size())) bad("the section table lies outside the file");
    sections_.resize(h.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i) {
      Section& s = sections_[i];
      s.header = entry<Elf64_Shdr>(h.e_shoff, i);
      const Elf64_Shdr& sh = s.header;
      if (sh.sh_type != SHT_NOBITS && sh.sh_type != SHT_NULL && !inside(sh.sh_offset, sh.sh_size, file_.size()))
        bad("section {} lies outside the file", i);
      s.loaded = (sh.sh_flags & SHF_ALLOC) && sh.sh_type != SHT_NULL;
      if (!s.loaded) continue;
      if (sh.sh_type != SHT_PROGBITS && sh.sh_type != SHT_NOBITS && sh.sh_type != SHT_NOTE && sh.sh_type != SHT_X86_64_UNWIND) {
        bad("section {} has the type {}, which kernels do not use", i, sh.sh_type);
      }
      if (sh.sh_flags & (SHF_TLS | SHF_COMPRESSED)) bad("section {} is thread-local or compressed", i);
      if (sh.sh_size > kMaxImageBytes) bad("section {} has {} bytes", i, sh.sh_size);
      if (sh.sh_addralign > 4096 || (sh.sh_addralign & (sh.sh_addralign - 1)))
        bad("section {} asks for an alignment of {}", i, sh.sh_addralign);
    }
  }

  void read_symbols() {
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& sh = sections_[i].header;
      if (sh.sh_type != SHT_SYMTAB) continue;
      if (!symbols_.empty()) bad("it has two symbol tables");
      if (sh.sh_entsize != sizeof(Elf64_Sym) || sh.sh_size % sizeof(Elf64_Sym))
        bad("the symbol table has entries of {} bytes", sh.sh_entsize);
      if (sh.sh_link >= sections_.size() || sections_[sh.sh_link].header.sh_type != SHT_STRTAB) bad("the symbol table has no names");
      const Elf64_Shdr& names = sections_[sh.sh_link].header;
      names_ = file_.substr(names.sh_offset, names.sh_size);
      if (names_.empty() || names_.back() != '\0') bad("the table of names does not end");
      symbol_table_ = uint32_t(i);
      for (size_t k = 0; k < sh.sh_size / sizeof(Elf64_Sym); ++k) {
        auto symbol = entry<Elf64_Sym>(sh.sh_offset, k);
        if (symbol.st_name >= names_.size()) bad("symbol {} has its name outside the table", k);
        symbols_.push_back(symbol);
      }
    }
  }

  std::string_view name_of(const Elf64_Sym& s) const { return std::string_view(names_.data() + s.st_name); }

  // Calls visit(section, relocation) for each relocation of a loaded section, after checking what is common to all.
  template <class F>
  void for_each_relocation(F visit) {
    for (const Section& table : sections_) {
      const Elf64_Shdr& sh = table.header;
      if (sh.sh_type != SHT_RELA && sh.sh_type != SHT_REL) continue;
      if (sh.sh_info >= sections_.size()) bad("a relocation table belongs to section {} of {}", sh.sh_info, sections_.size());
      Section& target = sections_[sh.sh_info];
      if (!target.loaded) continue;
      if (sh.sh_type == SHT_REL) bad("it has relocations without addends");
      if (sh.sh_entsize != sizeof(Elf64_Rela) || sh.sh_size % sizeof(Elf64_Rela))
        bad("a relocation table has entries of {} bytes", sh.sh_entsize);
      if (target.header.sh_type == SHT_NOBITS || symbols_.empty() || sh.sh_link != symbol_table_)
        bad("a relocation table does not fit its section");
      for (size_t k = 0; k < sh.sh_size / sizeof(Elf64_Rela); ++k) {
        auto r = entry<Elf64_Rela>(sh.sh_offset, k);
        if (ELF64_R_SYM(r.r_info) >= symbols_.size()) bad("a relocation refers to symbol {} of {}", ELF64_R_SYM(r.r_info), symbols_.size());
        visit(target, r);
      }
    }
  }

  void scan_relocations() {
    slots_.assign(symbols_.size(), -1);
    for_each_relocation([&](Section&, const Elf64_Rela& r) {
      uint32_t type = ELF64_R_TYPE(r.r_info);
      size_t symbol = ELF64_R_SYM(r.r_info);
      bool external_call = type == R_X86_64_PLT32 && symbols_[symbol].st_shndx == SHN_UNDEF;
      if ((needs_slot(type) || external_call) && slots_[symbol] < 0) slots_[symbol] = slot_count_++;
    });
  }

  template <class F>
  size_t place(size_t at, F wanted) {
    for (Section& s : sections_) {
      if (!s.loaded || !wanted(s.header.sh_flags)) continue;
      if ((s.header.sh_flags & SHF_WRITE) && (s.header.sh_flags & SHF_EXECINSTR)) bad("a section is writable and executable at once");
      at = round_up(at, std::max<size_t>(s.header.sh_addralign, 1));
      s.offset = at;
      at += s.header.sh_size;
      if (at > kMaxImageBytes) bad("what is loaded at once needs more than {} bytes", kMaxImageBytes);
    }
    return at;
  }

  void copy() {
    for (const Section& s : sections_) {
      if (s.loaded && s.header.sh_type != SHT_NOBITS) std::memcpy(base_ + s.offset, file_.data() + s.header.sh_offset, s.header.sh_size);
    }
  }

  uint64_t base() const { return reinterpret_cast<uint64_t>(base_); }

  void resolve_symbols() {
    addresses_.assign(symbols_.size(), 0);
    resolved_.assign(symbols_.size(), false);
    for (size_t i = 1; i < symbols_.size(); ++i) {
      const Elf64_Sym& s = symbols_[i];
      int type = ELF64_ST_TYPE(s.st_info), binding = ELF64_ST_BIND(s.st_info);
      if (type == STT_FILE || s.st_shndx == SHN_UNDEF) continue;  // undefined ones are looked up when something refers to them
      if (type == STT_TLS || type == STT_GNU_IFUNC) bad("symbol \"{}\" is thread-local or indirect", name_of(s));
      if (s.st_shndx == SHN_ABS) {
        addresses_[i] = s.st_value;
        resolved_[i] = true;
        continue;
      }
      if (s.st_shndx >= sections_.size()) bad("symbol \"{}\" lies in section {} of {}", name_of(s), s.st_shndx, sections_.size());
      const Section& section = sections_[s.st_shndx];
      if (!section.loaded) continue;
      if (s.st_value > section.header.sh_size) bad("symbol \"{}\" lies outside its section", name_of(s));
      addresses_[i] = base() + section.offset + s.st_value;
      resolved_[i] = true;
      if (binding != STB_LOCAL && s.st_value < section.header.sh_size) {
        code_->symbols_.emplace(name_of(s), reinterpret_cast<void*>(addresses_[i]));
      }
    }
  }

  uint64_t address_of(size_t symbol) {
    if (resolved_[symbol]) return addresses_[symbol];
    const Elf64_Sym& s = symbols_[symbol];
    if (symbol == 0 || s.st_shndx != SHN_UNDEF) bad("a relocation refers to symbol {}, which has no address", symbol);
    auto it = std::find_if(externals_.begin(), externals_.end(), [&](const ExternalSymbol& e) { return e.name == name_of(s); });
    if (it == externals_.end()) {
      fail<EnvironmentError>(
          "cannot load the object code of {}: it uses \"{}\", which Toroid does not offer to kernels ({} names are offered)", what_,
          name_of(s), externals_.size());
    }
    addresses_[symbol] = reinterpret_cast<uint64_t>(it->address);
    resolved_[symbol] = true;
    return addresses_[symbol];
  }

  // Slot of the symbol's address; filled on every use, which is cheap and needs no bookkeeping.
  uint64_t slot_address(size_t symbol) {
    uint64_t address = address_of(symbol);
    size_t at = slots_at_ + size_t(slots_[symbol]) * sizeof(uint64_t);
    std::memcpy(base_ + at, &address, sizeof address);
    return base() + at;
  }

  // A stub that jumps to a function beyond the reach of a 32-bit call: jmp *[rip + distance to its slot].
  uint64_t stub_address(size_t symbol) {
    uint64_t slot = slot_address(symbol);
    size_t at = stubs_at_ + size_t(slots_[symbol]) * kStubBytes;
    int32_t distance = int32_t(int64_t(slot - (base() + at + 6)));
    uint8_t* stub = base_ + at;
    stub[0] = 0xff;
    stub[1] = 0x25;
    std::memcpy(stub + 2, &distance, sizeof distance);
    return base() + at;
  }

  void apply_relocations() {
    for_each_relocation([&](Section& section, const Elf64_Rela& r) {
      uint32_t type = ELF64_R_TYPE(r.r_info);
      size_t symbol = ELF64_R_SYM(r.r_info);
      if (type == R_X86_64_NONE) return;
      size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
      if (!inside(r.r_offset, width, section.header.sh_size)) bad("a relocation lies outside its section");
      uint8_t* where = base_ + section.offset + r.r_offset;
      uint64_t place = reinterpret_cast<uint64_t>(where), addend = uint64_t(r.r_addend), value = 0;
      switch (type) {
        case R_X86_64_64:
        case R_X86_64_32:
        case R_X86_64_32S:
          value = address_of(symbol) + addend;
          break;
        case R_X86_64_PC32:
        case R_X86_64_PC64:
          value = address_of(symbol) + addend - place;
          break;
        case R_X86_64_PLT32:
          value =
              (slots_[symbol] >= 0 && symbols_[symbol].st_shndx == SHN_UNDEF ? stub_address(symbol) : address_of(symbol)) + addend - place;
          break;
        case R_X86_64_GOTPCREL:
        case kGotPcRelX:
        case kRexGotPcRelX:
          value = slot_address(symbol) + addend - place;
          break;
        default:
          bad("relocation {} is not supported", relocation_name(type));
      }
      if (width == 4) {
        bool fits = type == R_X86_64_32 ? value <= std::numeric_limits<uint32_t>::max() : int64_t(value) == int64_t(int32_t(value));
        if (!fits)
          bad("relocation {} against \"{}\" does not reach (position-independent code is expected)", relocation_name(type),
              name_of(symbols_[symbol]));
      }
      std::memcpy(where, &value, width);  // little-endian: the low bytes come first
    });
  }

  std::string_view file_;
  std::span<const ExternalSymbol> externals_;
  std::string_view what_;
  std::shared_ptr<LoadedCode> code_;
  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::string_view names_;
  uint32_t symbol_table_ = 0;
  std::vector<int32_t> slots_;  // of each symbol, -1: none
  int32_t slot_count_ = 0;
  std::vector<uint64_t> addresses_;
  std::vector<bool> resolved_;
  uint8_t* base_ = nullptr;  // of the image
  size_t slots_at_ = 0, stubs_at_ = 0;
};

std::shared_ptr<const LoadedCode> LoadedCode::load(std::string_view object, std::span<const ExternalSymbol> externals,
                                                   std::string_view what) {
  const ObjectCode one{object, what};
  return load_all({&one, 1}, externals).front();
}

std::vector<std::shared_ptr<const LoadedCode>> LoadedCode::load_all(std::span<const ObjectCode> objects,
                                                                    std::span<const ExternalSymbol> externals) {
  std::vector<CodeLinker> linkers;
  linkers.reserve(objects.size());
  for (const ObjectCode& object : objects) linkers.emplace_back(object, externals);
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  size_t fixed = 0;
  for (CodeLinker& linker : linkers) fixed = linker.lay_out_fixed_parts(round_up(fixed, kImageAlignment));
  size_t end = fixed = round_up(fixed, page);
  for (CodeLinker& linker : linkers) end = linker.lay_out_variables(end);
  const auto image = std::make_shared<const Image>(round_up(std::max<size_t>(end, 1), page));
  std::vector<std::shared_ptr<const LoadedCode>> out;
  for (CodeLinker& linker : linkers) out.push_back(linker.link(image));
  image->make_executable(fixed);
  return out;
}

void* LoadedCode::find(std::string_view name) const {
  auto it = symbols_.find(std::string(name));
  return it == symbols_.end() ? nullptr : it->second;
}

void* LoadedCode::symbol(std::string_view name) const {
  void* address = find(name);
  if (!address)
    fail<EnvironmentError>("the object code of {} does not define \"{}\"; it defines {} other names", what_, name, symbols_.size());
  return address;
}

}  // namespace toroid::device
