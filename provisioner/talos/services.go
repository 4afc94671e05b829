package talos

import (
	"context"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// Services lists the node's services.
func (a Admin) Services(ctx context.Context, host string) ([]Service, error) {
	var services []Service
	err := a.call(ctx, host, func(ctx context.Context, c *session) (err error) {
		if services, err = readServices(ctx, c); err != nil {
			return callError(ctx, "listing the services", host, err)
		}
		return nil
	})
	return services, err
}

func readServices(ctx context.Context, c *session) ([]Service, error) {
	answer, err := c.ServiceList(ctx)
	if err != nil {
		return nil, err
	}
	var services []Service
	for _, message := range answer.GetMessages() {
		for _, s := range message.GetServices() {
			services = append(services, Service{
				ID:          s.GetId(),
				State:       s.GetState(),
				Healthy:     s.GetHealth().GetHealthy(),
				HealthKnown: s.GetHealth() != nil && !s.GetHealth().GetUnknown(),
				Message:     newest(s.GetEvents()),
			})
		}
	}
	return services, nil
}

// newest is the message of the newest event, which comes last.
func newest(events *machine.ServiceEvents) string {
	list := events.GetEvents()
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].GetMsg()
}

// etcdOf is etcd among the services. In state Preparing it looks for members to
// join and, finding none, waits to be bootstrapped.
func etcdOf(services []Service) Etcd {
	for _, s := range services {
		if s.ID == etcdID {
			return Etcd{Service: s, Waiting: s.State == "Preparing"}
		}
	}
	return Etcd{}
}

// etcdID is the name of etcd among the services.
const etcdID = "etcd"
