package web

// timelineLength is how many of a node's newest events its detail has.
const timelineLength = 200

func (s *Server) fleet(c *call) (any, error) {
	return list(s.control.Fleet(c.Context(), c.URL.Query().Get("cluster")))
}

func (s *Server) detail(c *call) (any, error) {
	d, err := s.control.Detail(c.Context(), c.PathValue("cluster"), c.PathValue("node"))
	if err != nil {
		return nil, err
	}
	d.Events = orEmpty(d.Events)
	return d, nil
}

func (s *Server) collisions(c *call) (any, error) { return list(s.control.Collisions(c.Context())) }

func (s *Server) upgrades(c *call) (any, error) {
	all, err := s.control.Upgrades(c.Context())
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Nodes = orEmpty(all[i].Nodes)
	}
	return orEmpty(all), nil
}
