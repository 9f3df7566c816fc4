package main

import "encoding/json"

// The types of the provider contract, version 1: docs/reference/provider-contract.schema.json. contract_test.go
// compares them. An optional field is left out if it is empty, unless empty has a meaning: then it is a pointer.

// SecretRef names a Secret of the control cluster.
type SecretRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Origin is for people and logs: it identifies nothing.
type Origin struct {
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}

// Scope is what all requests about a class have in common.
type Scope struct {
	Cluster      string          `json:"cluster,omitempty"`
	Origin       *Origin         `json:"origin,omitempty"`
	ProviderSpec json.RawMessage `json:"providerSpec"`
	Credentials  []SecretRef     `json:"credentials"`
}

// MachineIdentity is the Machine that a VM belongs to.
type MachineIdentity struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type UserData struct {
	SecretRef
	Key string `json:"key"`
}

type EnsureVMRequest struct {
	Scope
	Machine              MachineIdentity            `json:"machine"`
	UserData             UserData                   `json:"userData"`
	Token                string                     `json:"token"`
	ProviderSpecDefaults map[string]json.RawMessage `json:"providerSpecDefaults,omitempty"`
	OutcomeUnknown       bool                       `json:"outcomeUnknown"`
	ProviderID           string                     `json:"providerID,omitempty"`
	MustExist            bool                       `json:"mustExist,omitempty"`
	LastKnownState       string                     `json:"lastKnownState,omitempty"`
}

type VMAddress struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

type VM struct {
	State          string            `json:"state"`
	ProviderID     string            `json:"providerID"`
	NodeName       string            `json:"nodeName,omitempty"`
	Addresses      []VMAddress       `json:"addresses"`
	Message        string            `json:"message,omitempty"`
	LastKnownState string            `json:"lastKnownState,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
}

// OneResource is the only one that the sweep wants to be deleted.
type OneResource struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	UID  string `json:"uid,omitempty"`
}

type DeleteVMRequest struct {
	Scope
	Machine        MachineIdentity `json:"machine"`
	Only           *OneResource    `json:"only,omitempty"`
	ProviderID     string          `json:"providerID,omitempty"`
	NodeNames      *[]string       `json:"nodeNames,omitempty"` // nil: delete without regard for names
	MayBeUntagged  bool            `json:"mayBeUntagged,omitempty"`
	OutcomeUnknown bool            `json:"outcomeUnknown"`
	LastKnownState string          `json:"lastKnownState,omitempty"`
}

type UntaggedVM struct {
	ProviderID string `json:"providerID"`
	NodeName   string `json:"nodeName,omitempty"`
}

type VMDeletion struct {
	State                string      `json:"state"`
	NodeNames            []string    `json:"nodeNames"`
	AskAgainAfterSeconds float64     `json:"askAgainAfterSeconds,omitempty"`
	UntaggedVM           *UntaggedVM `json:"untaggedVm,omitempty"`
}

type ListVMsRequest struct {
	Scope
	Page        string `json:"page,omitempty"`
	WithoutTags bool   `json:"withoutTags,omitempty"`
}

type CloudResource struct {
	Kind       string            `json:"kind"`
	ID         string            `json:"id"`
	UID        string            `json:"uid,omitempty"`
	Name       string            `json:"name"`
	CreatedAt  string            `json:"createdAt"`
	Alive      *bool             `json:"alive,omitempty"`
	AttachedTo string            `json:"attachedTo,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
}

type VMPage struct {
	Items    []CloudResource `json:"items"`
	NextPage string          `json:"nextPage,omitempty"`
}

type ValidateClassRequest struct {
	Scope
}

type ClassVerdict struct {
	Problems      []string          `json:"problems"`
	ListScope     string            `json:"listScope,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Interruptible bool              `json:"interruptible,omitempty"`
}

type Volume struct {
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec"`
}

type VolumeIDsRequest struct {
	Volumes []Volume `json:"volumes"`
}

type VolumeIDs struct {
	IDs map[string]string `json:"ids"`
}

// UpdateVMRequest is that of the optional updateVm, which this provider does not have.
type UpdateVMRequest struct {
	Scope
	Machine     MachineIdentity   `json:"machine"`
	ProviderID  string            `json:"providerID,omitempty"`
	Tags        map[string]string `json:"tags"`
	RemovedTags []string          `json:"removedTags"`
}

// ListInterruptionsRequest is that of the optional listInterruptions, which this provider does not have.
type ListInterruptionsRequest struct {
	Scope
	Page string `json:"page,omitempty"`
}

type Interruption struct {
	ProviderID string `json:"providerID"`
	Reason     string `json:"reason"`
}

type InterruptionPage struct {
	Items    []Interruption `json:"items"`
	NextPage string         `json:"nextPage,omitempty"`
}

// FailureDetails is the first of the details of a failure.
type FailureDetails struct {
	CloudCode    string `json:"cloudCode,omitempty"`
	RequestID    string `json:"requestId,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
	NothingMade  bool   `json:"nothingMade,omitempty"`
}
