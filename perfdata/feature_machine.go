// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// What the features say about the machine that was recorded.

// strs reads a u32 number of strings and the strings.
func (c *cursor) strs() []string {
	var list []string
	for range c.u32() {
		s := c.str()
		if c.short {
			break
		}
		list = append(list, s)
	}
	return list
}

// CPUDesc returns the CPU's name, as /proc/cpuinfo has it.
func (r *Recording) CPUDesc() (string, error) { return r.stringFeature(FeatureCPUDesc) }

// CPUID returns the CPU's family, model and stepping, or what identifies it on
// other architectures (get_cpuid of tools/perf/arch/*/util/header.c).
func (r *Recording) CPUID() (string, error) { return r.stringFeature(FeatureCPUID) }

// TotalMem returns the machine's memory in units of 1024 bytes.
func (r *Recording) TotalMem() (kib uint64, err error) {
	c, err := r.feature(FeatureTotalMem)
	if err != nil {
		return 0, err
	}
	kib = c.u64()
	return kib, r.shortErr(FeatureTotalMem, c)
}

// A CPUTopology says which CPUs share what. Lists of CPUs are as sysfs has
// them: "0-3,8".
type CPUTopology struct {
	Packages []string // CPUs of each package
	Dies     []string // CPUs of each die; old perfs did not say
	Cores    []string // CPUs of each core: hardware threads
	CPUs     []CPUPlace
}

// A CPUPlace is the place of one CPU, -1 where the kernel did not say.
type CPUPlace struct {
	Core, Die, Socket int32 // Die is 0 in a recording without dies
}

// CPUTopology returns the CPU_TOPOLOGY section. CPUs has an entry for each CPU
// that NRCPUS counts as available; it is empty in recordings of the first perfs
// that wrote the section, and where NRCPUS is missing.
func (r *Recording) CPUTopology() (CPUTopology, error) {
	c, err := r.feature(FeatureCPUTopology)
	if err != nil {
		return CPUTopology{}, err
	}
	t := CPUTopology{Packages: c.strs(), Cores: c.strs()}
	if c.short {
		return CPUTopology{}, r.shortErr(FeatureCPUTopology, c)
	}
	available, _, err := r.NRCPUs()
	if err != nil || c.rest() == 0 {
		return t, nil
	}
	for range available {
		p := CPUPlace{Core: int32(c.u32()), Socket: int32(c.u32())}
		if c.short {
			break
		}
		t.CPUs = append(t.CPUs, p)
	}
	if c.rest() > 0 {
		t.Dies = c.strs()
		for i := range t.CPUs {
			t.CPUs[i].Die = int32(c.u32())
		}
	}
	if err := r.shortErr(FeatureCPUTopology, c); err != nil {
		return CPUTopology{}, err
	}
	return t, nil
}

// A NUMANode is a node of the machine's memory.
type NUMANode struct {
	Node           uint32
	MemTotal, Free uint64 // in units of 1024 bytes
	CPUs           string // as sysfs has them: "0-3,8"
}

// NUMATopology returns the NUMA_TOPOLOGY section.
func (r *Recording) NUMATopology() ([]NUMANode, error) {
	c, err := r.feature(FeatureNUMATopology)
	if err != nil {
		return nil, err
	}
	var nodes []NUMANode
	for range c.u32() {
		n := NUMANode{Node: c.u32(), MemTotal: c.u64(), Free: c.u64(), CPUs: c.str()}
		if c.short {
			break
		}
		nodes = append(nodes, n)
	}
	return nodes, r.shortErr(FeatureNUMATopology, c)
}

// A CPUCache is a cache of the machine.
type CPUCache struct {
	Level, LineSize, Sets, Ways uint32 // LineSize in bytes
	Type                        string // "Data", "Instruction", "Unified"
	Size                        string // "32K"
	CPUs                        string // that share it: "0-3,8"
}

const cacheVersion = 1

// Caches returns the CACHE section.
func (r *Recording) Caches() ([]CPUCache, error) {
	c, err := r.feature(FeatureCache)
	if err != nil {
		return nil, err
	}
	version, nr := c.u32(), c.u32()
	if !c.short && version != cacheVersion {
		return nil, r.featureErr(FeatureCache, 0, "version %d", version)
	}
	var caches []CPUCache
	for range nr {
		v := CPUCache{Level: c.u32(), LineSize: c.u32(), Sets: c.u32(), Ways: c.u32(), Type: c.str(), Size: c.str(), CPUs: c.str()}
		if c.short {
			break
		}
		caches = append(caches, v)
	}
	return caches, r.shortErr(FeatureCache, c)
}

// A MemTopology says which blocks of physical memory belong to which node.
type MemTopology struct {
	BlockSize uint64 // bytes
	Nodes     []MemNode
}

// A MemNode is a node with its blocks of memory.
type MemNode struct {
	Node   uint64
	Blocks []uint64 // bitmap: bit i%64 of word i/64 is block i
}

const memTopologyVersion = 1

// MemTopology returns the MEM_TOPOLOGY section.
func (r *Recording) MemTopology() (MemTopology, error) {
	c, err := r.feature(FeatureMemTopology)
	if err != nil {
		return MemTopology{}, err
	}
	version := c.u64()
	t := MemTopology{BlockSize: c.u64()}
	nr := c.u64()
	if !c.short && version != memTopologyVersion {
		return MemTopology{}, r.featureErr(FeatureMemTopology, 0, "version %d", version)
	}
	for range nr {
		n := MemNode{Node: c.u64()}
		c.u64() // the size of the bitmap, which it has itself too
		size := c.u64()
		if size > uint64(c.rest())*8 {
			c.short = true
		}
		if c.short {
			break
		}
		n.Blocks = c.order.u64s(c.take(int((size + 63) / 64 * 8)))
		t.Nodes = append(t.Nodes, n)
	}
	if err := r.shortErr(FeatureMemTopology, c); err != nil {
		return MemTopology{}, err
	}
	return t, nil
}

// A HybridPMU is the CPUs of one kind in a machine that has several.
type HybridPMU struct {
	PMU  string // "cpu_core", "cpu_atom"
	CPUs string // "0-3,8"
}

// HybridTopology returns the HYBRID_TOPOLOGY section.
func (r *Recording) HybridTopology() ([]HybridPMU, error) {
	c, err := r.feature(FeatureHybridTopology)
	if err != nil {
		return nil, err
	}
	var list []HybridPMU
	for range c.u32() {
		h := HybridPMU{PMU: c.str(), CPUs: c.str()}
		if c.short {
			break
		}
		list = append(list, h)
	}
	return list, r.shortErr(FeatureHybridTopology, c)
}

// A CPUDomains is the scheduling domains of the machine, which the records of
// /proc/schedstat refer to.
type CPUDomains struct {
	SchedstatVersion uint32
	MaxDomains       uint32 // the largest number of domains that a CPU has
	CPUs             []CPUDomainList
}

// A CPUDomainList is the scheduling domains of one CPU.
type CPUDomainList struct {
	CPU     uint32
	Domains []CPUDomain
}

// A CPUDomain is one scheduling domain of a CPU.
type CPUDomain struct {
	Domain uint32
	Name   string // "SMT", "MC"; since version 17 of schedstat
	Mask   string // of CPUs, in hexadecimal
	CPUs   string // "0-3,8"
}

const schedstatNames = 17 // the version since which domains have names

// CPUDomains returns the CPU_DOMAIN_INFO section.
func (r *Recording) CPUDomains() (CPUDomains, error) {
	c, err := r.feature(FeatureCPUDomainInfo)
	if err != nil {
		return CPUDomains{}, err
	}
	d := CPUDomains{SchedstatVersion: c.u32(), MaxDomains: c.u32()}
	// The number of CPUs is not here: they go on to the section's end.
	for !c.short && c.rest() > 0 {
		list := CPUDomainList{CPU: c.u32()}
		for range c.u32() {
			v := CPUDomain{Domain: c.u32()}
			if d.SchedstatVersion >= schedstatNames {
				v.Name = c.str()
			}
			v.Mask, v.CPUs = c.str(), c.str()
			if c.short {
				break
			}
			list.Domains = append(list.Domains, v)
		}
		d.CPUs = append(d.CPUs, list)
	}
	if err := r.shortErr(FeatureCPUDomainInfo, c); err != nil {
		return CPUDomains{}, err
	}
	return d, nil
}

// EMachine returns what ELF files of the machine have in e_machine and e_flags.
func (r *Recording) EMachine() (machine, flags uint32, err error) {
	c, err := r.feature(FeatureEMachine)
	if err != nil {
		return 0, 0, err
	}
	machine, flags = c.u32(), c.u32()
	return machine, flags, r.shortErr(FeatureEMachine, c)
}

// CachelineSize returns the size of a cache line in bytes, the CLN_SIZE section.
func (r *Recording) CachelineSize() (uint32, error) {
	c, err := r.feature(FeatureCLNSize)
	if err != nil {
		return 0, err
	}
	n := c.u32()
	return n, r.shortErr(FeatureCLNSize, c)
}
