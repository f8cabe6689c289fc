// Builds small ELF64 relocatable files byte by byte, so that the loader's tests need no compiler.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

namespace toroid::testing {

class ElfBuilder {
 public:
  struct Section {
    uint32_t type = SHT_PROGBITS;
    uint64_t flags = SHF_ALLOC;
    std::string bytes;
    uint64_t size = 0;  // of SHT_NOBITS
    uint64_t alignment = 16;
    std::vector<Elf64_Rela> relocations;
  };

  // Returns the section's index in the file.
  int section(uint64_t flags, std::string bytes, uint32_t type = SHT_PROGBITS, uint64_t size = 0) {
    sections_.push_back({type, SHF_ALLOC | flags, std::move(bytes), size, 16, {}});
    return int(sections_.size());
  }
  // Returns the symbol's index. Section 0: undefined.
  int symbol(const std::string& name, int section, uint64_t value = 0, int type = STT_FUNC, int binding = STB_GLOBAL) {
    Elf64_Sym s{};
    s.st_name = uint32_t(names_.size());
    s.st_info = ELF64_ST_INFO(binding, type);
    s.st_shndx = uint16_t(section);
    s.st_value = value;
    names_ += name + '\0';
    symbols_.push_back(s);
    return int(symbols_.size());
  }
  void relocate(int section, uint64_t offset, uint32_t type, int symbol, int64_t addend = 0) {
    Elf64_Rela r{};
    r.r_offset = offset;
    r.r_info = ELF64_R_INFO(uint64_t(symbol), type);
    r.r_addend = addend;
    sections_[section - 1].relocations.push_back(r);
  }

  std::string build() const {
    std::string out(sizeof(Elf64_Ehdr), '\0');
    std::vector<Elf64_Shdr> headers(1);
    auto append = [&](uint32_t type, uint64_t flags, const void* data, size_t size, uint64_t entry) -> Elf64_Shdr& {
      Elf64_Shdr h{};
      h.sh_type = type;
      h.sh_flags = flags;
      h.sh_offset = out.size();
      h.sh_size = size;
      h.sh_entsize = entry;
      h.sh_addralign = 1;
      if (size) out.append(static_cast<const char*>(data), size);
      headers.push_back(h);
      return headers.back();
    };
    for (const Section& s : sections_) {
      Elf64_Shdr& h = append(s.type, s.flags, s.bytes.data(), s.bytes.size(), 0);
      if (s.type == SHT_NOBITS) h.sh_size = s.size;
      h.sh_addralign = s.alignment;
    }
    uint32_t symtab = uint32_t(sections_.size() + 1);
    std::vector<Elf64_Sym> symbols(1);
    symbols.insert(symbols.end(), symbols_.begin(), symbols_.end());
    append(SHT_SYMTAB, 0, symbols.data(), symbols.size() * sizeof(Elf64_Sym), sizeof(Elf64_Sym)).sh_link = symtab + 1;
    append(SHT_STRTAB, 0, names_.data(), names_.size(), 0);
    for (size_t i = 0; i < sections_.size(); ++i) {
      const auto& r = sections_[i].relocations;
      if (r.empty()) continue;
      Elf64_Shdr& h = append(SHT_RELA, 0, r.data(), r.size() * sizeof(Elf64_Rela), sizeof(Elf64_Rela));
      h.sh_link = symtab;
      h.sh_info = uint32_t(i + 1);
    }
    Elf64_Ehdr e{};
    std::memcpy(e.e_ident, ELFMAG, SELFMAG);
    e.e_ident[EI_CLASS] = ELFCLASS64;
    e.e_ident[EI_DATA] = ELFDATA2LSB;
    e.e_ident[EI_VERSION] = EV_CURRENT;
    e.e_type = ET_REL;
    e.e_machine = EM_X86_64;
    e.e_version = EV_CURRENT;
    e.e_shoff = out.size();
    e.e_ehsize = sizeof(Elf64_Ehdr);
    e.e_shentsize = sizeof(Elf64_Shdr);
    e.e_shnum = uint16_t(headers.size());
    std::memcpy(out.data(), &e, sizeof e);
    out.append(reinterpret_cast<const char*>(headers.data()), headers.size() * sizeof(Elf64_Shdr));
    return out;
  }

 private:
  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::string names_ = std::string(1, '\0');
};

}  // namespace toroid::testing
