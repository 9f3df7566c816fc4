// Reads a JSON list of questions from standard input: a health check of Argo CD in Lua or an expression of Flux in CEL, and
// the object that it judges. Writes the list of answers to standard output.
package main

import (
	"encoding/json"
	"os"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	lua "github.com/yuin/gopher-lua"
)

// question has either a check in Lua or an expression in CEL.
type question struct {
	Lua string `json:"lua"`
	Cel string `json:"cel"`
	// UseOpenLibs opens all standard libraries of Lua, such as string.
	UseOpenLibs bool           `json:"useOpenLibs"`
	Object      map[string]any `json:"object"`
}

// answer has the error, what a check returns, or what an expression is.
type answer struct {
	Error   string `json:"error,omitempty"`
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Is      bool   `json:"is"`
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		panic(err)
	}
	answers := []answer{}
	for _, q := range questions {
		judge := judgeLua
		if q.Cel != "" {
			judge = judgeCel
		}
		a, err := judge(q)
		if err != nil {
			a.Error = err.Error()
		}
		answers = append(answers, a)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

// judgeLua runs a check with the libraries that Argo CD opens.
func judgeLua(q question) (answer, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: !q.UseOpenLibs})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return answer{}, err
		}
	}
	state.SetGlobal("obj", toLua(state, q.Object))
	if err := state.DoString(q.Lua); err != nil {
		return answer{}, err
	}
	health := state.CheckTable(-1)
	return answer{
		Status:  lua.LVAsString(health.RawGetString("status")),
		Message: lua.LVAsString(health.RawGetString("message")),
	}, nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		table := state.NewTable()
		for _, each := range value {
			table.Append(toLua(state, each))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, each := range value {
			table.RawSetString(key, toLua(state, each))
		}
		return table
	}
	return lua.LNil
}

// judgeCel parses and evaluates an expression with the options of Flux, which declares no variables.
func judgeCel(q question) (answer, error) {
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders(),
	)
	if err != nil {
		return answer{}, err
	}
	parsed, issues := env.Parse(q.Cel)
	if issues.Err() != nil {
		return answer{}, issues.Err()
	}
	program, err := env.Program(parsed)
	if err != nil {
		return answer{}, err
	}
	value, _, err := program.Eval(q.Object)
	if err != nil {
		return answer{}, err
	}
	is, _ := value.Value().(bool)
	return answer{Is: is}, nil
}
