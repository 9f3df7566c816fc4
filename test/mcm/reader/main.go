// Reads a JSON list of Kubernetes objects from standard input, as machine-controller-manager (MCM) reads them, and writes
// what it reads to standard output. Types, names and the parser of errors are MCM's own.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/annotations"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// answer is what MCM reads of one object.
type answer struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Problems are fields that MCM does not know, and values that it cannot read.
	Problems []string `json:"problems"`
	// Step is the part of the description by which MCM goes on with a deletion.
	Step string `json:"step,omitempty"`
	// Code is that of the error in the description, and ErrorCode that of the field, as MCM knows them.
	Code      string `json:"code,omitempty"`
	ErrorCode string `json:"errorCode,omitempty"`
	// IsFailed and IsMarked are what the owner of a Machine asks.
	IsFailed bool `json:"isFailed,omitempty"`
	IsMarked bool `json:"isMarked,omitempty"`
	// Doomed are the names in the annotation by which the autoscaler deletes machines.
	Doomed []string `json:"doomed,omitempty"`
	// Template is what was applied to a Node last.
	Template *v1alpha1.NodeTemplateSpec `json:"template,omitempty"`
	Holder   string                     `json:"holder,omitempty"`
}

// steps are those of a deletion in the order in which MCM looks for them.
var steps = []string{
	machineutils.GetVMStatus,
	machineutils.InitiateDrain,
	machineutils.DelVolumesAttachments,
	machineutils.InitiateVMDeletion,
	machineutils.InitiateNodeDeletion,
	machineutils.InitiateFinalizerRemoval,
}

var phases = []v1alpha1.MachinePhase{
	"", v1alpha1.MachinePending, v1alpha1.MachineAvailable, v1alpha1.MachineRunning, v1alpha1.MachineTerminating,
	v1alpha1.MachineUnknown, v1alpha1.MachineFailed, v1alpha1.MachineCrashLoopBackOff,
	v1alpha1.MachineInPlaceUpdating, v1alpha1.MachineInPlaceUpdateSuccessful, v1alpha1.MachineInPlaceUpdateFailed,
}

var operations = []v1alpha1.MachineOperationType{
	"", v1alpha1.MachineOperationCreate, v1alpha1.MachineOperationUpdate, v1alpha1.MachineOperationInPlaceUpdate,
	v1alpha1.MachineOperationDrainNode, v1alpha1.MachineOperationHealthCheck, v1alpha1.MachineOperationDelete,
}

var states = []v1alpha1.MachineState{
	"", v1alpha1.MachineStateProcessing, v1alpha1.MachineStateFailed, v1alpha1.MachineStateSuccessful,
}

func main() {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		fail(err)
	}
	answers := []*answer{}
	for _, object := range objects {
		answers = append(answers, read(object))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func read(object []byte) *answer {
	var meta struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &meta); err != nil {
		fail(err)
	}
	a := &answer{Kind: meta.Kind, Name: meta.Metadata.Name, Problems: []string{}}
	switch meta.Kind {
	case "Machine":
		machine := &v1alpha1.Machine{}
		a.decode(object, machine)
		a.readMachine(machine)
	case "MachineSet":
		set := &v1alpha1.MachineSet{}
		a.decode(object, set)
		a.readRevisions(set.Annotations)
		a.readOperations(set.Status.FailedMachines)
	case "MachineDeployment":
		deployment := &v1alpha1.MachineDeployment{}
		a.decode(object, deployment)
		a.readRevisions(deployment.Annotations)
		for _, summary := range deployment.Status.FailedMachines {
			a.readOperation(summary.LastOperation)
		}
		a.Doomed = annotations.GetMachineNamesWithDeletionTimesTriggeredForDeletion(deployment)
	case "MachineClass":
		a.decode(object, &v1alpha1.MachineClass{})
	case "Node":
		node := &corev1.Node{}
		a.decode(object, node)
		a.readNode(node)
	case "Lease":
		lease := &coordinationv1.Lease{}
		a.decode(object, lease)
		if lease.Spec.HolderIdentity != nil {
			a.Holder = *lease.Spec.HolderIdentity
		}
	default:
		a.problem("kind", meta.Kind)
	}
	return a
}

func (a *answer) problem(what string, value any) {
	a.Problems = append(a.Problems, fmt.Sprintf("%s: %v", what, value))
}

// decode reads strictly: a field that the type does not have is a problem. MCM itself skips it.
func (a *answer) decode(data []byte, into any) {
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		a.problem("unreadable", err)
	}
	for _, each := range strict {
		a.Problems = append(a.Problems, each.Error())
	}
}

func (a *answer) readMachine(machine *v1alpha1.Machine) {
	if !isOneOf(phases, machine.Status.CurrentStatus.Phase) {
		a.problem("phase", machine.Status.CurrentStatus.Phase)
	}
	operation := machine.Status.LastOperation
	a.readOperation(operation)
	for _, step := range steps {
		if strings.Contains(operation.Description, step) {
			a.Step = step
			break
		}
	}
	if operation.ErrorCode != "" {
		a.ErrorCode = codes.StringToCode(operation.ErrorCode).String()
	}
	// The text begins with MCM's own words only where it is an error of a driver.
	if strings.Contains(operation.Description, "machine codes error:") {
		parsed, isDecoded := status.FromError(errors.New(operation.Description))
		a.Code = parsed.Code().String()
		if !isDecoded {
			a.problem("error", operation.Description)
		}
	}
	a.IsFailed = machineutils.IsMachineFailed(machine)
	a.IsMarked = machineutils.IsMachineTriggeredForDeletion(machine)
	a.readInteger(machine.Annotations, machineutils.MachinePriority)
	a.readTime(machine.Annotations, "machine.sapcloud.io/marked-for-deletion-time")
}

func (a *answer) readOperations(summaries *[]v1alpha1.MachineSummary) {
	if summaries == nil {
		return
	}
	for _, summary := range *summaries {
		a.readOperation(summary.LastOperation)
	}
}

func (a *answer) readOperation(operation v1alpha1.LastOperation) {
	if !isOneOf(operations, operation.Type) {
		a.problem("operation", operation.Type)
	}
	if !isOneOf(states, operation.State) {
		a.problem("state", operation.State)
	}
}

func (a *answer) readRevisions(annotations map[string]string) {
	for _, key := range []string{"revision", "desired-replicas", "max-replicas"} {
		a.readInteger(annotations, "deployment.kubernetes.io/"+key)
	}
	a.readTime(annotations, "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time")
}

func (a *answer) readNode(node *corev1.Node) {
	if text, found := node.Annotations[machineutils.LastAppliedALTAnnotation]; found {
		a.Template = &v1alpha1.NodeTemplateSpec{}
		a.decode([]byte(text), a.Template)
	}
	if text, found := node.Annotations[machineutils.LastAppliedVirtualCapacityAnnotation]; found {
		a.decode([]byte(text), &corev1.ResourceList{})
	}
}

func (a *answer) readInteger(annotations map[string]string, key string) {
	if text, found := annotations[key]; found {
		if _, err := strconv.ParseInt(text, 10, 32); err != nil {
			a.problem(key, err)
		}
	}
}

func (a *answer) readTime(annotations map[string]string, key string) {
	if text, found := annotations[key]; found {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			a.problem(key, err)
		}
	}
}

func isOneOf[T comparable](known []T, value T) bool {
	for _, each := range known {
		if each == value {
			return true
		}
	}
	return false
}
