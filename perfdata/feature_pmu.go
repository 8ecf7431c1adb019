// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A PMU is a performance monitoring unit of the machine.
type PMU struct {
	Type uint32 // as Attr.Type has it
	Name string // "cpu", "intel_pt", "cs_etm", "tracepoint"
}

// PMUMappings returns the PMU_MAPPINGS section, by which the Attr.Type of an
// event gets a name.
func (r *Recording) PMUMappings() ([]PMU, error) {
	c, err := r.feature(FeaturePMUMappings)
	if err != nil {
		return nil, err
	}
	var list []PMU
	for range c.u32() {
		p := PMU{Type: c.u32(), Name: c.str()}
		if c.short {
			break
		}
		list = append(list, p)
	}
	return list, r.shortErr(FeaturePMUMappings, c)
}

// A PMUCaps is what one PMU can do.
type PMUCaps struct {
	PMU  string
	Caps []PMUCap
}

// A PMUCap is a file in the PMU's caps directory in sysfs: "branches" is "32".
type PMUCap struct {
	Name, Value string
}

// caps reads a u32 number of capabilities and the capabilities.
func (c *cursor) caps() []PMUCap {
	var list []PMUCap
	for range c.u32() {
		v := PMUCap{Name: c.str(), Value: c.str()}
		if c.short {
			break
		}
		list = append(list, v)
	}
	return list
}

// CPUPMUCaps returns the CPU_PMU_CAPS section, what the PMU named cpu can do.
func (r *Recording) CPUPMUCaps() ([]PMUCap, error) {
	c, err := r.feature(FeatureCPUPMUCaps)
	if err != nil {
		return nil, err
	}
	caps := c.caps()
	return caps, r.shortErr(FeatureCPUPMUCaps, c)
}

// PMUCaps returns the PMU_CAPS section, what the other PMUs can do.
func (r *Recording) PMUCaps() ([]PMUCaps, error) {
	c, err := r.feature(FeaturePMUCaps)
	if err != nil {
		return nil, err
	}
	var list []PMUCaps
	for range c.u32() {
		p := PMUCaps{Caps: c.caps(), PMU: c.str()}
		if c.short {
			break
		}
		list = append(list, p)
	}
	return list, r.shortErr(FeaturePMUCaps, c)
}

// A Group is a group of events, which were counted together.
type Group struct {
	Name    string
	Leader  uint32 // index of the first event
	Members uint32 // the leader and those that follow it
}

// GroupDesc returns the GROUP_DESC section.
func (r *Recording) GroupDesc() ([]Group, error) {
	c, err := r.feature(FeatureGroupDesc)
	if err != nil {
		return nil, err
	}
	var list []Group
	for range c.u32() {
		g := Group{Name: c.str(), Leader: c.u32(), Members: c.u32()}
		if c.short {
			break
		}
		list = append(list, g)
	}
	return list, r.shortErr(FeatureGroupDesc, c)
}
