package web

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

func (s *Server) planUpgrade(c *call) (any, error) {
	r, err := c.upgradeRequest()
	if err != nil {
		return nil, err
	}
	answer, err := s.control.PlanUpgrade(c.Context(), r)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (s *Server) startUpgrade(c *call) (any, error) {
	r, err := c.upgradeRequest()
	if err != nil {
		return nil, err
	}
	if r.Digest == "" {
		return nil, Invalid(errors.New("the request names no plan that was confirmed"), "ask for a plan first and give its digest")
	}
	info, err := s.control.StartUpgrade(c.Context(), r)
	if err != nil {
		return nil, err
	}
	c.note("run", info.ID)
	info.Nodes = orEmpty(info.Nodes)
	return info, nil
}

func (s *Server) stopUpgrade(c *call) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	return nil, s.control.StopUpgrade(c.Context(), c.PathValue("cluster"))
}

func (s *Server) abandonUpgrade(c *call) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	info, err := s.control.AbandonUpgrade(c.Context(), c.PathValue("cluster"))
	if err != nil {
		return nil, err
	}
	info.Nodes = orEmpty(info.Nodes)
	return info, nil
}

// upgradeRequest reads the body, and notes for the audit what is asked for.
func (c *call) upgradeRequest() (UpgradeRequest, error) {
	r, err := decodeUpgrade(c.body)
	if err != nil {
		return UpgradeRequest{}, err
	}
	for name, value := range r.fields() {
		if !value.IsZero() {
			c.note(name, clip(fmt.Sprint(value.Interface())))
		}
	}
	return r, nil
}

// decodeUpgrade reads the body of a plan or of the start of an upgrade.
func decodeUpgrade(body []byte) (UpgradeRequest, error) {
	var r UpgradeRequest
	if err := decode(body, &r); err != nil {
		return UpgradeRequest{}, err
	}
	for name, value := range r.fields() {
		if value.Kind() != reflect.String {
			continue
		}
		if err := checkText(name, value.String()); err != nil {
			return UpgradeRequest{}, err
		}
	}
	if r.Cluster == "" {
		return UpgradeRequest{}, Invalid(errors.New("the request names no cluster"), "give --cluster")
	}
	return r, nil
}

// fields visits the fields by their names in JSON, in the order of the type.
func (r UpgradeRequest) fields() func(func(string, reflect.Value) bool) {
	return func(visit func(string, reflect.Value) bool) {
		v := reflect.ValueOf(r)
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if !visit(name, v.Field(i)) {
				return
			}
		}
	}
}
