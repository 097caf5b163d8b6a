package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Cluster is what a cluster wants and has, for autoscalers.
type Cluster struct {
	Wanted        map[string]float64 // what work holds and what waiting work asks for, by resource
	Nodes, Shards map[string]int     // by state
}

var (
	wanted      = desc("wanted", "What work of the cluster holds of a resource, and waiting work asks for.", "resource")
	nodesIn     = desc("nodes", "Nodes of the cluster.", "state")
	shardsIn    = desc("shards", "Shards of the cluster.", "state")
	clusterWide = []*prometheus.Desc{wanted, nodesIn, shardsIn}
)

// Describe implements prometheus.Collector.
func (c *Cluster) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range clusterWide {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Cluster) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc) func(string, float64) {
		return func(name string, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, Printed(name))
		}
	}
	byName(c.Wanted, gauge(wanted))
	byName(c.Nodes, gauge(nodesIn))
	byName(c.Shards, gauge(shardsIn))
}

// ServeHTTP answers for the cluster.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := prometheus.NewRegistry()
	own.MustRegister(c)
	promhttp.HandlerFor(own, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
