package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// types of the contract by their names in the schema.
var types = map[string]func() any{
	"EnsureVmRequest":          func() any { return &EnsureVMRequest{} },
	"Vm":                       func() any { return &VM{} },
	"DeleteVmRequest":          func() any { return &DeleteVMRequest{} },
	"VmDeletion":               func() any { return &VMDeletion{} },
	"ListVmsRequest":           func() any { return &ListVMsRequest{} },
	"VmPage":                   func() any { return &VMPage{} },
	"ValidateClassRequest":     func() any { return &ValidateClassRequest{} },
	"ClassVerdict":             func() any { return &ClassVerdict{} },
	"VolumeIdsRequest":         func() any { return &VolumeIDsRequest{} },
	"VolumeIds":                func() any { return &VolumeIDs{} },
	"UpdateVmRequest":          func() any { return &UpdateVMRequest{} },
	"ListInterruptionsRequest": func() any { return &ListInterruptionsRequest{} },
	"InterruptionPage":         func() any { return &InterruptionPage{} },
	"FailureDetails":           func() any { return &FailureDetails{} },
	"CloudResource":            func() any { return &CloudResource{} },
	"Interruption":             func() any { return &Interruption{} },
	"MachineIdentity":          func() any { return &MachineIdentity{} },
	"Origin":                   func() any { return &Origin{} },
	"SecretRef":                func() any { return &SecretRef{} },
	"VmAddress":                func() any { return &VMAddress{} },
}

type definition struct {
	Properties map[string]any    `json:"properties"`
	Examples   []json.RawMessage `json:"examples"`
}

func readSchema(t *testing.T) map[string]definition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(millwright(), "docs/reference/provider-contract.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]definition `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Defs
}

func TestTypesHaveTheFieldsOfTheSchema(t *testing.T) {
	for name, definition := range readSchema(t) {
		create := types[name]
		if create == nil {
			t.Errorf("there is no type for %s", name)
			continue
		}
		has := map[string]bool{}
		fieldsOf(reflect.TypeOf(create()).Elem(), has)
		for field := range definition.Properties {
			if !has[field] {
				t.Errorf("%s lacks the field %s", name, field)
			}
		}
		if len(has) != len(definition.Properties) {
			t.Errorf("%s has %d fields, and in the schema %d", name, len(has), len(definition.Properties))
		}
	}
}

func fieldsOf(of reflect.Type, into map[string]bool) {
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			fieldsOf(field.Type, into)
			continue
		}
		name, _, _ := bytes.Cut([]byte(field.Tag.Get("json")), []byte(","))
		into[string(name)] = true
	}
}

func TestExamplesAreTheSameAfterAWayThroughTheTypes(t *testing.T) {
	for name, definition := range readSchema(t) {
		for _, example := range definition.Examples {
			value := types[name]()
			decoder := json.NewDecoder(bytes.NewReader(example))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(value); err != nil {
				t.Errorf("%s does not take %s: %v", name, example, err)
				continue
			}
			again, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if !isSameJSON(t, example, again) {
				t.Errorf("%s makes of %s\n%s", name, example, again)
			}
		}
	}
}

func isSameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var left, right any
	if err := json.Unmarshal(a, &left); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &right); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(left, right)
}
