package main

import (
	"time"
)

// Faults are those of a request that need the state of the cloud. The front decides in which requests they show.
type faults struct {
	// Capacity is refused at once or in the operation, as its code says.
	Capacity *struct {
		Code string `json:"code"`
	} `json:"capacity"`
	Quota *struct {
		Limit int `json:"limit"`
	} `json:"quota"`
	FailedOperation *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"failedOperation"`
	SlowOperation *struct {
		Ms int `json:"ms"`
	} `json:"slowOperation"`
	Invisible *struct {
		Ms int `json:"ms"`
	} `json:"invisible"`
	// Leftover parts outlive their VM whatever their delete option says.
	Leftover *struct {
		Parts []string `json:"parts"`
	} `json:"leftover"`
}

func (f faults) visibleAt() time.Time {
	if f.Invisible == nil {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(f.Invisible.Ms) * time.Millisecond)
}

// capacityMessages are those of Azure, by code.
var capacityMessages = map[string]string{
	"AllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this region. " +
		"Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance",
	"ZonalAllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone. " +
		"Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance",
	"OverconstrainedAllocationRequest": "Allocation failed. VM(s) with the following constraints cannot be allocated, because " +
		"the condition is too restrictive. Please remove some constraints and try again. Constraints applied are:\n" +
		"  - Networking Constraints (such as Accelerated Networking or IPv6)\n  - VM Size\n",
	"OverconstrainedZonalAllocationRequest": "Allocation failed. VM(s) with the following constraints cannot be allocated, " +
		"because the condition is too restrictive. Please remove some constraints and try again. Constraints applied are:\n" +
		"  - Availability Zone\n  - VM Size\n",
}
