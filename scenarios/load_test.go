package scenarios_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

// invalid is the error for each file testdata/invalid-*.yaml, line by line.
var invalid = map[string][]string{
	"invalid-several-unread": {
		`9: unknown field "colour" in the document; allowed: apiVersion, checks, coredns, counterpart, deadline, description, feature, fleet, handler, kind, name, nodes, observe, probe, profile, realNodes, secondHandler, sets, setting, settle, source, steps, title, workload`,
		`10: unknown field "shape" in coredns; allowed: antiAffinity, autoScaling, corefile, daemonSet, delay, doNotDisrupt, gracePeriod, lameduck, maxUnavailable, memory, minAvailable, placement, podENI, port, preStop, readiness, replicas, rollout, shareNodes, tolerations, topologySpread, trafficDistribution, unhealthyPodEvictionPolicy, unsafe`,
		`10: "20" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`,
		`15: unknown field "when" in reclaim; allowed: after, at, node, shutdown`,
		`18: unknown field "maximum" in losses; allowed: answered, exceptConntrack, max, maxWindow, minWindow, mode, of`,
		`14: steps[0].reclaim.node: "nobody" is not known; allowed: victim`,
		`19: checks[1].losses.mode: "some" is not known; allowed: all, fixed, fresh`,
	},
	"invalid-budget-change-remove":              {`25: steps[1].do.budget: "app" is not known; allowed: second`},
	"invalid-check-events-bounded":              {`26: checks[0].eventsBounded.max: 0 is less than 1: a blocked eviction must be reported`},
	"invalid-check-others-kept":                 {`25: checks[0].othersKept.node: nothing is prepared on "victim", so that nothing is lost there proves nothing`},
	"invalid-check-stops-cleanly":               {`25: checks[0].stopsCleanly.disturbance: "stop" is not known, and nothing is defined to choose from`},
	"invalid-check-taken-over":                  {`25: checks[0].takenOver.disturbance: "gone" is not known, and nothing is defined to choose from`},
	"invalid-disturb-move-on-demand":            {`23: steps[1].do.node: "reserved" has capacity on-demand, where the handler is anyway`},
	"invalid-disturb-move":                      {`22: steps[1].do.node: is required with {verb: move, target: handler}`},
	"invalid-disturb-node-of-kill":              {`22: steps[1].do.node: is not allowed with {verb: kill, target: handler}`},
	"invalid-operate-meanwhile":                 {`22: steps[1].do.meanwhile: is not allowed with {verb: uncordon, target: node}`},
	"invalid-upgrade-add-on":                    {`22: steps[1].do.addOn: "kube-proxy" is not known; allowed: coredns, vpc-cni`},
	"invalid-upgrade-vpc-cni":                   {`22: steps[1].do.addOn: needs workload.securityGroups, whose pods depend on the add-on vpc-cni`},
	"invalid-upgrade-lameduck-of-vpc-cni":       {`23: steps[1].do.lameduck: is only allowed with coredns`},
	"invalid-set-values-of-coredns":             {`23: steps[1].do.addOn: "coredns" is not known; allowed: vpc-cni`},
	"invalid-set-values":                        {`22: steps[1].do: needs workload.securityGroups, whose pods depend on the add-on vpc-cni`},
	"invalid-workload-security-groups":          {`16: workload.securityGroups: needs replicas, and is not allowed with launched`},
	"invalid-upgrade-conflicts":                 {`22: steps[1].do.conflicts: "none" is not known; did you mean "NONE"? allowed: OVERWRITE, PRESERVE, NONE`},
	"invalid-upgrade-lameduck":                  {`22: steps[1].do.lameduck: 2m0s is not within 0s to 1m0s`},
	"invalid-check-add-on-upgraded":             {`25: checks[0].addOnUpgraded.addOn: "coredns" is not known, and nothing is defined to choose from`},
	"invalid-operate-force":                     {`22: steps[1].do.force: is not allowed with {verb: uncordon, target: node}`},
	"invalid-operate-timeout":                   {`22: steps[1].do.timeout: 3m0s is not within 0s to 2m0s`},
	"invalid-operate-action":                    {`22: steps[1].do.verb: "reboot" is not known; allowed: delete, drain, join, label, touch, uncordon, unlabel`},
	"invalid-operate-node":                      {`22: steps[1].do.node: "other" is not known; allowed: victim`},
	"invalid-operate-on-demand":                 {`23: steps[1].do.node: "reserved" has capacity on-demand, where the handler and the recording proxy run`},
	"invalid-prepared-effect":                   {`19: nodes.victim.prepared.taints: "NoExecute" is not known; allowed: NoSchedule, PreferNoSchedule`},
	"invalid-prepared-field":                    {`19: unknown field "drained" in prepared; allowed: annotations, capacityReservation, cordoned, doNotDisrupt, labels, shutdownGracePeriod, shutdownGracePeriodCriticalPods, taints`},
	"invalid-prepared-key":                      {`19: nodes.victim.prepared: label "owner" is not of the domain example.com, so it could not be distinguished from those of others`},
	"invalid-prepared-shutdown":                 {`19: nodes.victim.prepared.shutdownGracePeriod: 5s is not a whole number of seconds within 15s to 5m0s`, `19: nodes.victim.prepared.shutdownGracePeriod: needs a step that shuts the node down: reclaim with shutdown`},
	"invalid-prepared-nothing":                  {`19: nodes.victim.prepared: prepares nothing; allowed: annotations, capacityReservation, cordoned, doNotDisrupt, labels, shutdownGracePeriod, taints`},
	"invalid-api-version":                       {`1: apiVersion: "spotdrill.dev/v2" is not known; allowed: spotdrill.dev/v1alpha1`},
	"invalid-await-answering-without-probe":     {`21: steps[1].await.answering: needs a probe`},
	"invalid-await-before-notice":               {`21: steps[0].await.deleted: "reclaim" is not known, and nothing is defined to choose from`},
	"invalid-spot-nodes-count":                  {`16: nodes: 4 have capacity spot, and the cluster has 3 such workers; more can be launched for a drill: launched`},
	"invalid-on-demand-nodes-count":             {`16: nodes: 2 have capacity on-demand, and the cluster has 1 such worker; more can be launched for a drill: launched`},
	"invalid-real-nodes-of-none":                {`18: realNodes: is only allowed with a node of capacity spot that is not launched`},
	"invalid-await-fault":                       {`22: steps[1].await.ended: "outage" is not known, and nothing is defined to choose from`},
	"invalid-await-fault-before-it-begins":      {`22: steps[1].await.hit: "f" is not known, and nothing is defined to choose from`},
	"invalid-await-ready":                       {`24: steps[2].await.ready: "slow" is not known; allowed: app`},
	"invalid-await-two-conditions":              {`22: steps[1].await: requires exactly one of: answering, deleted, dnsPods, drained, ended, evicting, hit, launched, ready, received`},
	"invalid-await-without-condition":           {`22: steps[1].await: requires exactly one of: answering, deleted, dnsPods, drained, ended, evicting, hit, launched, ready, received`},
	"invalid-await-without-timeout":             {`22: steps[1].await.timeout: must be more than 0s`},
	"invalid-budget-change-at":                  {`24: steps[2].do.at: "other" is not known; allowed: reclaim`},
	"invalid-budget-change-min-available":       {`24: steps[2].do.minAvailable: -1 is less than 0`},
	"invalid-budget-change-name-twice":          {`25: steps[3].do.name: "freed" is used twice`},
	"invalid-budget-change-pods":                {`24: steps[2].do.pods: "app" is not known, and nothing is defined to choose from`},
	"invalid-budget-change-without-name":        {`24: steps[2].do.name: must not be empty`},
	"invalid-budget-min-available":              {`16: workload.budgets[0].minAvailable: -1 is less than 0`},
	"invalid-budget-pods":                       {`16: workload.budgets[0].pods: "slow" is not known; allowed: app`},
	"invalid-budget-policy":                     {`16: workload.budgets[0].unhealthyPodEvictionPolicy: "Never" is not known; allowed: IfHealthyBudget, AlwaysAllow`},
	"invalid-budget-twice":                      {`16: workload.budgets[1].pods: "app" has a budget already; a second one, with which its pods cannot be evicted, requires a name of its own`},
	"invalid-check":                             {`25: unknown field "cordoned" in checks; allowed: ` + checks()},
	"invalid-check-after":                       {`25: checks[0].marked.after: "outage" is not known, and nothing is defined to choose from`},
	"invalid-check-budget-kept":                 {`26: checks[0].budgetKept.pods: "app" is not known, and nothing is defined to choose from`},
	"invalid-check-drained-pods":                {`26: checks[0].drained.pods: "bare" is not known; allowed: app`},
	"invalid-check-grace-at-least":              {`26: checks[0].graceHonoured.atLeast: must be more than 0s`},
	"invalid-check-pods":                        {`26: checks[0].noEviction.pods: "static" is not known; allowed: app`},
	"invalid-check-resumed-by":                  {`26: checks[0].resumed.budget: "freed" is not known, and nothing is defined to choose from`},
	"invalid-check-without-within":              {`25: checks[0].marked: requires exactly one of: within, beforeEviction, untilGone`},
	"invalid-dns-check-without-probe":           {`24: checks[0].losses: needs a probe`},
	"invalid-dns-mode":                          {`25: checks[0].losses.mode: "sticky" is not known; allowed: all, fixed, fresh`},
	"invalid-dns-window-without-bound":          {`25: checks[0].losses: requires exactly one of: max, answered, a window by minWindow, maxWindow or both`},
	"invalid-duration-negative":                 {`23: "-5s" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`},
	"invalid-duration-without-unit":             {`23: "5" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`},
	"invalid-empty":                             {`1: the file is empty`},
	"invalid-disrupt-coredns":                   {`22: steps[1].do.verb: "pause" is not known; allowed: configure, delete, kill, restart, scale`},
	"invalid-disrupt-lameduck-of-delete":        {`22: steps[1].do.lameduck: is not allowed with {verb: delete, target: coredns}`},
	"invalid-disrupt-lameduck-too-long":         {`22: steps[1].do.lameduck: 1m1s is not within 0s to 1m0s`},
	"invalid-disrupt-node":                      {`22: steps[1].do.node: "other" is not known; allowed: victim`},
	"invalid-disrupt-drain":                     {`22: steps[1].do.node: is required with {verb: drain, target: node}`},
	"invalid-disrupt-restart":                   {`22: steps[1].do.node: is not allowed with {verb: restart, target: coredns}`},
	"invalid-disrupt-scale":                     {`22: steps[1].do.replicas: is required with {verb: scale, target: coredns}`},
	"invalid-disrupt-kill":                      {`22: steps[1].do.replicas: is not allowed with {verb: kill, target: coredns}`},
	"invalid-disrupt-replicas":                  {`22: steps[1].do.replicas: 11 is not within 1 to 10`},
	"invalid-disturb-for-of-kill":               {`22: steps[1].do.for: is not allowed with {verb: kill, target: handler}`},
	"invalid-disturb-handler":                   {`22: steps[1].do.verb: "pause" is not known; allowed: configure, cut-off, delete, kill, move, restart, retire, scale, stop`},
	"invalid-disturb-name-twice":                {`23: steps[2].do.name: "crash" is used twice`},
	"invalid-disturb-of-no-handler":             {`23: steps[1].do: the scenario has no handler`},
	"invalid-disturb-replicas":                  {`22: steps[1].do.replicas: 9 is not within 1 to 5`},
	"invalid-mid-drain":                         {`25: checks[0].midDrain.disturbance: "crush" is not known; did you mean "crash"? allowed: crash`},
	"invalid-empty-step":                        {`22: steps[1]: nothing is set; requires exactly one of: ` + steps()},
	"invalid-null-check-item":                   {`26: an item of checks is empty`},
	"invalid-null-check-parameters":             {`26: noEviction has no value; write {} if it has no parameters`},
	"invalid-null-check-second":                 {`26: losses has no value; write {} if it has no parameters`},
	"invalid-endpoint-bound":                    {`25: checks[0].endpointStays.atLeast: must be more than 0s`},
	"invalid-endpoint-of-a-node-that-stays":     {`25: checks[0].endpointStays.node: no step takes the instance of "victim", so the check could never be decided`},
	"invalid-drained-after-the-deadline":        {`25: checks[0].drained.within: 2m1s is more than the deadline (2m0s), which is the limit anyway`},
	"invalid-fault-action":                      {`22: steps[1].fault.actions: "Receive" is not known; did you mean "ReceiveMessage"? allowed: ReceiveMessage, DeleteMessage, DeleteMessageBatch, ChangeMessageVisibility, ChangeMessageVisibilityBatch, GetQueueUrl, GetQueueAttributes`},
	"invalid-fault-action-of-duplicate":         {`22: steps[1].fault.actions: is not allowed with type duplicate on queue, which has: after, toAnother, count, for, oneIn, at`},
	"invalid-fault-after":                       {`22: steps[1].fault.after: 5s is not less than for (5s): no duplicate would be delivered`},
	"invalid-fault-by-of-reset":                 {`22: steps[1].fault.by: is not allowed with type reset on queue, which has: actions, count, for, oneIn, at`},
	"invalid-fault-code":                        {`22: steps[1].fault.code: "SlowDown" is not known; allowed: ThrottlingException, RequestThrottled`},
	"invalid-fault-count":                       {`22: steps[1].fault.count: -1 is less than 0`},
	"invalid-fault-delay-without-by":            {`22: steps[1].fault.by: is required with type delay on queue`},
	"invalid-fault-duration-without-unit":       {`22: "30" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`},
	"invalid-fault-error-without-status":        {`22: steps[1].fault.status: is required with type error on queue`},
	"invalid-fault-name-twice":                  {`23: steps[2].fault.name: "f" is used twice`},
	"invalid-fault-status":                      {`22: steps[1].fault.status: 404 is not known; allowed: 500, 503`},
	"invalid-fault-recreated-too-soon":          {`22: steps[1].fault.for: 30s is less than the 1m0s for which SQS keeps the name of a deleted queue`},
	"invalid-fault-recreated-with-count":        {`22: steps[1].fault.count: is not allowed with type recreated-queue on queue, which has: for`},
	"invalid-fault-retention-of-nothing":        {`22: steps[1].fault.for: 1m0s is not more than 1m0s, for which SQS keeps messages at least: none would expire`},
	"invalid-fault-reader-without-for":          {`22: steps[1].fault.for: is required with type second-reader on queue`},
	"invalid-fault-reader-with-actions":         {`22: steps[1].fault.actions: is not allowed with type second-reader on queue, which has: for, count`},
	"invalid-prepared-reservation":              {`17: nodes.victim.prepared.capacityReservation: "cr-1" is not cr- and 17 hexadecimal digits`},
	"invalid-notice-block-without-reservation":  {`21: steps[0].notice.nodes: requires one node with prepared.capacityReservation, with type capacity-block-expiration`},
	"invalid-fault-type":                        {`22: steps[1].fault.type: "flood" is not known; allowed: delay, throttle, error, client-error, reset, black-hole, lost-answer, failed-entry, duplicate, reorder, recreated-queue, short-retention, second-reader`},
	"invalid-fault-unknown-field":               {`22: unknown field "times" in fault; allowed: actions, after, at, by, capacity, code, count, for, name, node, on, oneIn, resources, retryAfter, silent, status, toAnother, type, verbs`},
	"invalid-fault-without-end":                 {`22: steps[1].fault: requires count, for or both: a fault must end`},
	"invalid-fault-without-name":                {`22: steps[1].fault.name: must not be empty`},
	"invalid-feature":                           {`9: feature: "spots" is not known; did you mean "spot"? allowed: spot, state-change, scheduled-change, scheduled-change-at-once, scheduled-change-status, rebalance-event, rebalance-drain, capacity-reservation, karpenter-order, launch, limits, pod-eni, drift, consolidation, multi-node-consolidation, spot-consolidation, emptiness, expiration, daemon-sets, disruption-budget, without-queue, instance-returns, two-handlers, lifecycle-action, status-check, capacity-block`},
	"invalid-field":                             {`23: unknown field "settel" in the document; did you mean "settle"? allowed: apiVersion, checks, coredns, counterpart, deadline, description, feature, fleet, handler, kind, name, nodes, observe, probe, profile, realNodes, secondHandler, sets, setting, settle, source, steps, title, workload`},
	"invalid-field-in-node":                     {`17: unknown field "capacty" in victim; did you mean "capacity"? allowed: capacity, launched, prepared, runs`},
	"invalid-field-in-step":                     {`22: unknown field "when" in reclaim; allowed: after, at, node, shutdown`},
	"invalid-field-nested":                      {`13: unknown field "lame" in coredns; did you mean "lameduck"? allowed: antiAffinity, autoScaling, corefile, daemonSet, delay, doNotDisrupt, gracePeriod, lameduck, maxUnavailable, memory, minAvailable, placement, podENI, port, preStop, readiness, replicas, rollout, shareNodes, tolerations, topologySpread, trafficDistribution, unhealthyPodEvictionPolicy, unsafe`},
	"invalid-field-twice":                       {`24: mapping key "settle" already defined at line 23`},
	"invalid-grace-period":                      {`15: coredns.gracePeriod: 5s is not a whole number of seconds above lameduck (5s), so the pod would be killed before it is done; unsafe: true permits that`},
	"invalid-unsafe":                            {`16: coredns.unsafe: is only allowed with a grace period that is not above lameduck (5s)`},
	"invalid-handler":                           {`9: handler: "mine" is not known; allowed: under-test, none`},
	"invalid-kind":                              {`2: kind: "Drill" is not known; allowed: Scenario`},
	"invalid-list":                              {`1: the document must be a mapping with any of: apiVersion, checks, coredns, counterpart, deadline, description, feature, fleet, handler, kind, name, nodes, observe, probe, profile, realNodes, secondHandler, sets, setting, settle, source, steps, title, workload`},
	"invalid-lost-max":                          {`25: checks[0].losses.max: -1 is less than 0`},
	"invalid-message-body":                      {`22: steps[1].message.body: must not be empty: SQS refuses it`},
	"invalid-message-instance":                  {`22: steps[1].message.body: "ghost" is not known; allowed: victim`},
	"invalid-message-times":                     {`22: steps[1].message.times: -1 is less than 0`},
	"invalid-message-too-large":                 {`22: steps[1].message.body: ${REPEAT:…} of more than 262144 bytes: SQS refuses it`},
	"invalid-message-too-large-in-all":          {`22: steps[1].message.body: 400000 bytes are more than 262144: SQS refuses it`},
	"invalid-name":                              {`3: name: "other" must be the file's name, "invalid-name"`},
	"invalid-no-checks":                         {`24: checks: must not be empty: a drill that checks nothing cannot fail`},
	"invalid-no-deadline":                       {`1: deadline: a scenario with a notice needs fast and full`},
	"invalid-no-description":                    {`1: description: must not be empty`},
	"invalid-no-sets":                           {`8: sets: requires at least one of: fast, full, soak`},
	"invalid-no-settle":                         {`23: settle: must be more than 0s: what happens after the last step is part of the drill`},
	"invalid-no-steps":                          {`20: steps: must not be empty`},
	"invalid-node-capacity":                     {`17: nodes.victim.capacity: "cheap" is not known; allowed: spot, on-demand`},
	"invalid-node-of-check":                     {`25: checks[0].marked.node: "bystander" is not known; allowed: victim`, `25: checks[0].marked.notice: "reclaim" does not name node "bystander"`},
	"invalid-node-of-notice":                    {`21: steps[0].notice.nodes: "bystander" is not known; allowed: victim`, `25: checks[0].marked.notice: "reclaim" does not name node "victim"`},
	"invalid-node-of-reclaim":                   {`22: steps[1].reclaim.node: "bystander" is not known; allowed: victim`},
	"invalid-node-runs":                         {`17: nodes.victim.runs: "etcd" is not known; allowed: coredns`},
	"invalid-nodes-not-a-mapping":               {`17: nodes must be a mapping`},
	"invalid-notice-action":                     {`21: steps[0].notice.action: "destroy" is not known; allowed: terminate, stop, hibernate`},
	"invalid-notice-name-used-twice":            {`22: steps[1].notice.name: "reclaim" is used twice`},
	"invalid-notice-names-another-node":         {`26: checks[0].marked.notice: "reclaim" does not name node "other"`},
	"invalid-notice-of-check":                   {`25: checks[0].marked.notice: "other" is not known; allowed: reclaim`},
	"invalid-notice-of-reclaim":                 {`22: steps[1].reclaim.at: "other" is not known; allowed: reclaim`},
	"invalid-notice-state":                      {`21: steps[0].notice.state: is required with type state-change`},
	"invalid-notice-target":                     {`21: steps[0].notice: requires exactly one of: fleet, formerOf, instance, instanceLike, launchedSince, nodes`},
	"invalid-notice-type":                       {`21: steps[0].notice.type: "spot" is not known; did you mean "spot-interruption"? allowed: spot-interruption, rebalance-recommendation, state-change, scheduled-change, capacity-reservation-interruption, lifecycle-action, capacity-block-expiration, status-check`},
	"invalid-notice-without-name":               {`21: steps[0].notice.name: must not be empty`, `22: steps[1].reclaim.at: "reclaim" is not known, and nothing is defined to choose from`, `25: checks[0].marked.notice: "reclaim" is not known, and nothing is defined to choose from`},
	"invalid-notice-without-target":             {`21: steps[0].notice: requires exactly one of: fleet, formerOf, instance, instanceLike, launchedSince, nodes`, `25: checks[0].marked.notice: "reclaim" does not name node "victim"`},
	"invalid-of-check":                          {`25: checks[0].deleted.of: "other" is not known; allowed: reclaim`},
	"invalid-only-a-comment":                    {`1: the file is empty`},
	"invalid-placement":                         {`11: coredns.placement: "everywhere" is not known; allowed: spot, on-demand, spread, anywhere, launched`},
	"invalid-pods-field":                        {`16: unknown field "replicas" in pods; allowed: kind, node`},
	"invalid-pods-kind":                         {`16: workload.pods[0].kind: "lazy" is not known; allowed: slow, deaf, critical, bare, empty-dir, job, stateful-set, two-containers, tolerating, static, unready, long, endless, finalizer, pending, finished`},
	"invalid-pods-kind-twice":                   {`16: workload.pods[1].kind: "slow" is used twice`},
	"invalid-pods-node":                         {`16: workload.pods[0].node: "bystander" is not known; allowed: victim`},
	"invalid-pods-node-capacity":                {`16: workload.pods[0].node: "reserved" has capacity on-demand, and these pods run on spot or on a launched node`},
	"invalid-probe-empty":                       {`25: checks[0].losses: needs a probe`},
	"invalid-probe-probers":                     {`19: probe.probers: 5 is not within 1 to 4`},
	"invalid-probe-shared":                      {`19: probe.fixedPorts: 3 is less than 1 for each prober`},
	"invalid-auto-scaling":                      {`12: coredns.replicas: 2 is not within autoScaling, 3 to 10`},
	"invalid-auto-scaling-bounds":               {`16: coredns.autoScaling.max: 11 is not within 1 to 10`},
	"invalid-grow":                              {`22: steps[1].do.nodes: 101 is not within 0 to 100`},
	"invalid-grow-cores":                        {`22: steps[1].do.cores: 897 is not within 1 to 896`},
	"invalid-await-dns-pods":                    {`22: steps[1].await.dnsPods: 11 is not within 1 to 10`},
	"invalid-probe-names":                       {`19: probe.names: 20000 is not within 0 to 16384`},
	"invalid-probe-rate":                        {`19: probe.fresh: -1 is less than 1 for each prober`},
	"invalid-profile":                           {`7: profile: "spot" is not known; did you mean "SPOT"? allowed: STATE-CHANGE, SCHEDULED-CHANGE, REBALANCE, CAPACITY-RESERVATION, LIFECYCLE, STATUS-CHECK, EVENTS, QUEUE-HYGIENE, RESILIENCE, API-SERVER, PDB, SPOT, KARPENTER-ORDER, STORM, DNS, UPGRADE, APPLICATION, LAUNCH, TWO-HANDLERS, FLAGS, INCIDENT`},
	"invalid-readiness-period":                  {`14: coredns.readiness.period: 1.5s is not a whole number of seconds, at least 1s`},
	"invalid-readiness-threshold":               {`14: coredns.readiness.failureThreshold: 0 is less than 1`},
	"invalid-replicas":                          {`12: coredns.replicas: 11 is not within 1 to 10`},
	"invalid-set":                               {`8: sets: "slow" is not known; allowed: fast, full, soak`},
	"invalid-several":                           {`7: profile: "spot" is not known; did you mean "SPOT"? allowed: STATE-CHANGE, SCHEDULED-CHANGE, REBALANCE, CAPACITY-RESERVATION, LIFECYCLE, STATUS-CHECK, EVENTS, QUEUE-HYGIENE, RESILIENCE, API-SERVER, PDB, SPOT, KARPENTER-ORDER, STORM, DNS, UPGRADE, APPLICATION, LAUNCH, TWO-HANDLERS, FLAGS, INCIDENT`, `21: steps[0].notice.type: "spot" is not known; did you mean "spot-interruption"? allowed: spot-interruption, rebalance-recommendation, state-change, scheduled-change, capacity-reservation-interruption, lifecycle-action, capacity-block-expiration, status-check`},
	"invalid-step":                              {`22: unknown field "reboot" in steps; allowed: ` + steps()},
	"invalid-steps-not-a-list":                  {`20: steps must be a list`},
	"invalid-title":                             {`4: title: must not be empty`},
	"invalid-empty-check":                       {`25: checks[0]: nothing is set; requires exactly one of: ` + checks()},
	"invalid-scalar-check":                      {`25: checks must be a mapping with any of: ` + checks()},
	"invalid-two-checks-in-one":                 {`25: checks[0]: marked and noEviction are set; requires exactly one of: ` + checks()},
	"invalid-two-documents":                     {`26: only one YAML document is allowed in a file`},
	"invalid-two-steps-in-one":                  {`22: steps[1]: await and reclaim are set; requires exactly one of: ` + steps()},
	"invalid-window-bounds":                     {`25: checks[0].losses.minWindow: 5s is more than maxWindow (1s)`},
	"invalid-workload":                          {`16: workload.replicas: -1 is less than 0`},
	"invalid-yaml":                              {`9: did not find expected ',' or ']'`},
	"invalid-check-calls":                       {`24: checks[0].calls.during: "outage" is not known, and nothing is defined to choose from`, `24: checks[0].calls.max: 0 is less than 1`},
	"invalid-disturb-meanwhile":                 {`22: steps[1].do.meanwhile: is not allowed with {verb: kill, target: handler}`},
	"invalid-disturb-named-as-a-fault":          {`23: steps[2].do.name: "f" is used twice`},
	"invalid-fault-action-of-failed-entry":      {`22: steps[1].fault.actions: is not allowed with type failed-entry on queue, which has: code, count, for, oneIn, at`},
	"invalid-fault-client-error-without-code":   {`22: steps[1].fault.code: is required with type client-error on queue`},
	"invalid-fault-capacity":                    {`22: steps[1].fault.capacity: "reserved" is not known; allowed: spot, on-demand`},
	"invalid-fault-capacity-of-reset":           {`22: steps[1].fault.capacity: is not allowed with type reset on queue, which has: actions, count, for, oneIn, at`},
	"invalid-fault-action-of-no-capacity":       {`22: steps[1].fault.actions: is not allowed with type no-capacity on ec2, which has: code, capacity, oneIn, count, for`},
	"invalid-fault-no-capacity-feature":         {`22: steps[1].fault: on ec2 requires feature: launch, so that only a handler that launches nodes is drilled`},
	"invalid-reconfigure-name":                  {`22: steps[1].do.name: "reclaim" is used twice`},
	"invalid-reconfigure-disrupts":              {`22: steps[1].do.disrupts: "nobody" is not known; allowed: victim`},
	"invalid-coredns-memory":                    {`16: coredns.memory: "2G" is no amount of memory such as 2Gi or 512Mi`},
	"invalid-coredns-memory-placement":          {`16: coredns.memory: is only allowed with placement launched`},
	"invalid-coredns-pod-eni-placement":         {`16: coredns.podENI: is only allowed with placement launched`},
	"invalid-coredns-share-nodes-placement":     {`16: coredns.shareNodes: is only allowed with placement launched`},
	"invalid-prepared-do-not-disrupt":           {`17: nodes.victim.prepared.doNotDisrupt: requires feature: launch, so that only a handler that launches nodes is drilled`},
	"invalid-fleet-size":                        {`10: fleet.nodes: 621 is not within 1 to 620`},
	"invalid-fleet-notice":                      {`14: steps[0].notice.every: the notices take 1m40s, which is not within 0s to 1m0s`, `14: steps[0].notice.fleet: 6 is not within 1 to 5 nodes`},
	"invalid-fleet-notice-type":                 {`14: steps[0].notice.fleet: is only allowed with the types spot-interruption and rebalance-recommendation: of these, each instance has a notice of its own`},
	"invalid-fleet-workload":                    {`11: workload.fleet: is not allowed with launched, serves or securityGroups: nothing runs on virtual nodes`},
	"invalid-fleet-every":                       {`14: steps[0].notice.every: is only allowed with fleet`, `17: checks[0].marked.notice: "reclaim" names no node of the fleet`},
	"invalid-fleet-without":                     {`10: workload.fleet: requires a fleet`, `13: steps[0].notice.fleet: 3 is not within 1 to 0 nodes`, `16: checks[0].marked.node: "fleet" is not known, and nothing is defined to choose from`},
	"invalid-notice-launched-since":             {`22: steps[1].notice.launchedSince: "later" is not known; allowed: reclaim`},
	"invalid-notice-launched-since-itself":      {`22: steps[1].notice.launchedSince: "again" is not known; allowed: reclaim`},
	"invalid-metadata-fault-type":               {`22: steps[1].fault.type: "throttle" is not known; allowed: delay, unauthorized, error, reset`},
	"invalid-metadata-fault-without-end":        {`22: steps[1].fault.for: is required with type reset on metadata`},
	"invalid-metadata-fault-on-demand":          {`23: steps[1].fault.node: "reserved" has capacity on-demand: only spot nodes have the service here`},
	"invalid-metadata-fault-delay-without-by":   {`22: steps[1].fault.by: is required with type delay on metadata`},
	"invalid-reclaim-after-at":                  {`22: steps[1].reclaim.after: is not allowed with at, which shows when`},
	"invalid-workload-launched-placement":       {`16: workload.launched: is only allowed with coredns.placement launched: otherwise the handler launches no nodes`},
	"invalid-workload-launched-replicas":        {`16: workload.launched: needs replicas, and is not allowed with spill`},
	"invalid-deploy-name":                       {`22: steps[1].do.daemonSet: "Agent" is no name of an object: lower case letters, digits and hyphens`},
	"invalid-deploy-memory":                     {`22: steps[1].do.memory: is required with {verb: create, target: workload}`},
	"invalid-deploy-feature":                    {`22: steps[1].do: requires feature: launch, so that only a handler that launches nodes is drilled`},
	"invalid-check-disrupted-at-once":           {`26: checks[1].disruptedAtOnce.max: 0 is less than 1: none could be removed`, `26: checks[1].disruptedAtOnce.of: "reclaim" is not known; allowed: new`},
	"invalid-check-daemon-set-runs":             {`26: checks[1].daemonSetRuns.name: "agent" is not known, and nothing is defined to choose from`, `26: checks[1].daemonSetRuns.within: must be more than 0s`},
	"invalid-check-forgotten":                   {`26: checks[1].removed.node: "victim" is not known, and nothing is defined to choose from`},
	"invalid-check-terminated":                  {`26: checks[1].removed.of: "again" is not known; allowed: reclaim`},
	"invalid-check-terminated-nodes":            {`26: checks[1].removed.of: "reclaim" names nodes: only a notice with launchedSince can name instances without one`},
	"invalid-check-pod-reported":                {`26: checks[1].reported: requires exactly one of: node, text`},
	"invalid-check-replaced-first-replacements": {`26: checks[1].replacedFirst.replacements: -1 is less than 0`},
	"invalid-reconfigure-feature":               {`22: steps[1].do: requires as feature one of: limits, pod-eni, drift, consolidation, multi-node-consolidation, spot-consolidation, emptiness, expiration, daemon-sets, disruption-budget`},
	"invalid-reconfigure-check-node":            {`26: checks[1].replacedFirst.node: "bystander" is not known; allowed: victim`},
	"invalid-fault-code-of-failed-entry":        {`22: steps[1].fault.code: "AccessDeniedException" is not known; allowed: InternalError, ReceiptHandleIsInvalid`},
	"invalid-fault-at":                          {`22: steps[1].fault.at: "sometimes" is not a call on queue and its number, such as DeleteMessage #1`},
	"invalid-fault-at-node":                     {`22: steps[1].fault.at: "victims" is not known; did you mean "victim"? allowed: victim`},
	"invalid-fault-code-of-reset":               {`22: steps[1].fault.code: is not allowed with type reset on queue, which has: actions, count, for, oneIn, at`},
	"invalid-fault-named-as-a-disturbance":      {`23: steps[2].fault.name: "f" is used twice`},
	"invalid-fault-silent-of-reset":             {`22: steps[1].fault.silent: is not allowed with type reset on queue, which has: actions, count, for, oneIn, at`},
	"invalid-fault-silent-without-for":          {`22: steps[1].fault.silent: requires for: calls that stay unanswered do not end a fault`},
	"invalid-notice-former-of":                  {`21: steps[0].notice.formerOf: "other" is not known; allowed: victim`},
	"invalid-notice-health":                     {`21: steps[0].notice.health: is only allowed with type scheduled-change`},
	"invalid-notice-health-foreign":             {`21: steps[0].notice.health.foreign: is not allowed with noEntities`},
	"invalid-notice-health-status":              {`21: steps[0].notice.health.status: "cancelled" is not known; allowed: open, closed, upcoming`},
	"invalid-notice-health-updates":             {`21: steps[0].notice.health.updates: "reclaim" is not known, and nothing is defined to choose from`},
	"invalid-notice-health-without-entities":    {`21: steps[0].notice: must not have any of: fleet, formerOf, instance, instanceLike, launchedSince, nodes; health.noEntities shows it`},
	"invalid-notice-zone":                       {`21: steps[0].notice.zone: is only allowed with the types spot-interruption and rebalance-recommendation: the others name no zone`},
	"invalid-launched-type":                     {`17: nodes.victim.launched.type: "large" is no EC2 instance type such as m5.large`},
	"invalid-launched-zone":                     {`17: nodes.victim.launched.zone: "seoul" is no availability zone such as ap-northeast-2c`},
	"invalid-launched-runs":                     {`17: nodes.victim.launched: cannot be set with runs: pods are on the other nodes when it is launched`},
	"invalid-placement-launched":                {`11: coredns.placement: "launched" requires feature: launch, so that only a handler that launches nodes is drilled`},
	"invalid-api-fault-type":                    {`22: steps[1].fault.type: "duplicate" is not known; allowed: delay, throttle, error, conflict, denied, reset, black-hole, watch-ended, lost-answer, held, stale`},
	"invalid-api-fault-verb":                    {`22: steps[1].fault.verbs: "put" is not known; allowed: get, list, watch, create, update, patch, delete, deletecollection`},
	"invalid-api-fault-verb-of-watch-ended":     {`22: steps[1].fault.verbs: is not allowed with type watch-ended on api, which has: resources, count, for`},
	"invalid-api-fault-resource":                {`22: steps[1].fault.resources: "/nodes" is not a resource as in kubectl, such as nodes, pods/eviction or leases.coordination.k8s.io`},
	"invalid-fault-on":                          {`22: steps[1].fault.on: "sqs" is not known; allowed: queue, api, ec2, metadata`},
	"invalid-old-feature":                       {`9: old spelling of a feature; write: setting: cordon-only`},
	"invalid-setting":                           {`9: setting: "spot" is a feature`},
	"invalid-old-actions": {
		`21: old spelling of a step; write: - do: {verb: restart, target: handler, name: rollout}`,
		`22: old spelling of a step; write: - do: {verb: delete, target: handler, name: stop}`,
		`23: old spelling of a step; write: - do: {verb: cut-off, target: handler, name: partition, for: 20s, meanwhile: true}`,
		`24: old spelling of a step; write: - do: {verb: delete, target: coredns, node: victim}`,
		`25: old spelling of a step; write: - do: {verb: drain, target: node, node: victim, after: 5s}`,
		`26: old spelling of a step; write: - do: {verb: configure, target: coredns, corefile: slow}`,
		`27: old spelling of a step; write: - do: {verb: configure, target: coredns, lameduck: 30s}`,
		`28: old spelling of a step; write: - do: {verb: configure, target: coredns, lameduck: 0s}`,
		`29: old spelling of a step; write: - do: {verb: configure, target: coredns, node: victim, corefile: broken}`,
		`30: old spelling of a step; write: - do: {verb: configure, target: coredns, placement: nowhere}`,
		`31: old spelling of a step; write: - do: {verb: drain, target: node, node: victim, timeout: 40s, force: true}`,
		`32: old spelling of a step; write: - do: {verb: uncordon, target: node, node: victim, untaint: true}`,
		`33: old spelling of a step; write: - do: {verb: delete, target: node, node: victim, name: by-hand}`,
		`34: old spelling of a step; write: - do: {verb: join, target: node, node: victim}`,
		`35: old spelling of a step; write: - do: {verb: join, target: node, node: victim, withoutProviderID: true}`,
		`36: old spelling of a step; write: - do: {verb: stop, target: kubelet, node: victim}`,
		`37: old spelling of a step; write: - do: {verb: start, target: instance, node: victim}`,
		`38: old spelling of a step; write: - do: {verb: unlabel, target: node, node: victim}`,
		`39: old spelling of a step; write: - do: {verb: label, target: node, node: victim}`,
		`40: old spelling of a step; write: - do: {verb: configure, target: handler, name: new, disrupts: [victim]}`,
		`43: old spelling of a step; write: - do: {verb: create, target: workload, daemonSet: agent, memory: 1Gi}`,
		`44: old spelling of a step; write: - do: {verb: scale, target: cluster, nodes: 0}`,
		`45: old spelling of a step; write: - do: {verb: upgrade, target: addon, addOn: coredns, conflicts: NONE, lameduck: 9s}`,
		`46: old spelling of a step; write: - do: {verb: configure, target: addon, addOn: vpc-cni, after: 10s}`,
		`47: old spelling of a step; write: - do: {verb: configure, target: budget, name: freed, pods: app, minAvailable: 1, at: reclaim, after: 5s}`,
		`48: old spelling of a step; write: - do: {verb: delete, target: budget, name: corrected, pods: app, minAvailable: 2, at: reclaim, after: 12s, budget: second}`,
	},
	"invalid-old-spelling-and-more": {
		`9: old spelling of a feature; write: setting: cordon-only`,
		`16: old spelling of a step; write: - fault: {on: api, name: contended, type: conflict, count: 2}`,
		`24: old spelling of a check; write: - losses: {of: dns, mode: all, maximum: 0}`,
		`10: unknown field "colour" in the document; allowed: apiVersion, checks, coredns, counterpart, deadline, description, feature, fleet, handler, kind, name, nodes, observe, probe, profile, realNodes, secondHandler, sets, setting, settle, source, steps, title, workload`,
		`13: "20" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`,
		`24: unknown field "maximum" in losses; allowed: answered, exceptConntrack, max, maxWindow, minWindow, mode, of`,
		`20: steps[1].notice.nodes: "nobody" is not known; allowed: victim`,
		`27: checks[1].marked.notice: "reclaim" does not name node "victim"`,
	},
	"invalid-old-spelling": {
		`22: old spelling of a step; write: - fault: {on: queue, name: outage, type: error, status: 500, for: 30s}`,
		`23: old spelling of a step; write: - fault: {on: ec2, name: none, type: no-capacity, capacity: spot, for: 120s}`,
		`24: old spelling of a step; write: - fault: {on: api, name: contended, type: conflict, verbs: [patch, update], count: 2}`,
		`29: old spelling of a step; write: - fault: {on: api, name: held, type: black-hole, for: 5s, silent: true}`,
		`30: old spelling of a step; write: - fault: {on: api, name: reset, type: black-hole, for: 5s}`,
		`31: old spelling of a step; write: - fault: {on: metadata, name: gone, node: victim, type: reset, for: 10s}`,
		`23: steps[2].fault: on ec2 requires feature: launch, so that only a handler that launches nodes is drilled`,
	},
	"invalid-api-fault-count":                   {`22: steps[1].fault.count: -1 is less than 0`},
	"invalid-api-fault-without-end":             {`22: steps[1].fault: requires count, for or both: a fault must end`},
	"invalid-api-fault-without-name":            {`22: steps[1].fault.name: must not be empty`},
	"invalid-api-fault-delay-without-by":        {`22: steps[1].fault.by: is required with type delay on api`},
	"invalid-api-fault-by-of-reset":             {`22: steps[1].fault.by: is not allowed with type reset on api, which has: verbs, resources, count, for, oneIn, at`},
	"invalid-api-fault-error-without-status":    {`22: steps[1].fault.status: is required with type error on api`},
	"invalid-api-fault-status":                  {`22: steps[1].fault.status: 404 is not known; allowed: 500, 503`},
	"invalid-api-fault-retry-after-of-conflict": {`22: steps[1].fault.retryAfter: is not allowed with type conflict on api, which has: verbs, resources, count, for, oneIn, at`},
	"invalid-api-fault-retry-after":             {`22: steps[1].fault.retryAfter: 1.5s is not a whole number of seconds`},
	"invalid-api-fault-silent-of-reset":         {`22: steps[1].fault.silent: is not allowed with type reset on api, which has: verbs, resources, count, for, oneIn, at`},
	"invalid-api-fault-actions":                 {`22: steps[1].fault.actions: is not allowed with type reset on api, which has: verbs, resources, count, for, oneIn, at`},
	"invalid-check-retried-of-lost-answer":      {`25: checks[0].retried.fault: "f" is not known, and nothing is defined to choose from`},
	"invalid-check-calls-max":                   {`25: checks[0].calls.max: 0 is less than 1`},
	"invalid-check-calls-per":                   {`25: checks[0].calls.per: 1s is less than 2s`},
	"invalid-check-calls-during":                {`25: checks[0].calls.during: "g" is not known; allowed: f`},
	"invalid-check-retry-after-of-none":         {`25: checks[0].retryAfterKept.fault: "f" has no retryAfter`},
	"invalid-api-fault-of-no-handler":           {`22: steps[1].fault: needs a handler: nobody else is affected`},
	"invalid-beside-dns":                        {`16: workload.besideDNS: needs replicas, whose pods its Service selects`},
	"invalid-serves-of-no-pods":                 {`16: workload.serves: needs replicas, whose pods serve`},
	"invalid-serves-for-part-of-a-second":       {`16: workload.serves.preStop: 500ms is not a whole number of seconds within 0s to 1m0s`},
	"invalid-serves-too-late":                   {`16: workload.serves.startsIn: 1m1s is not a whole number of seconds within 0s to 1m0s`},
	"invalid-application-that-does-not-serve":   {`20: probe.application: needs workload.serves: otherwise nothing answers`},
	"invalid-application-transport":             {`20: probe.application.transport: "udp" is not known; allowed: http, tcp`},
	"invalid-application-kept-tcp":              {`20: probe.application.fixed: is only allowed with transport http: a TCP connection that is kept is no request`},
	"invalid-application-rate":                  {`20: probe.application.fresh: 2 is less than 1 for each prober`},
	"invalid-application-check-without-probe":   {`26: checks[0].losses: needs probe.application`},
	"invalid-application-check-mode":            {`26: checks[0].losses.mode: fixed needs probe.application.transport http`},
	"invalid-application-lost-max":              {`26: checks[0].losses.max: -1 is less than 0`},
	"invalid-application-window-bounds":         {`26: checks[0].losses.minWindow: 3s is more than maxWindow (2s)`},
	"invalid-min-available":                     {`16: coredns.minAvailable: 3 is not within 0 to replicas (2)`},
	"invalid-delay":                             {`16: coredns.delay: 2s is not within 0s to 1s`},
	"invalid-delay-of-another-name":             {`16: coredns.delay: needs probe.name delayed.spotdrill.test.: only this name is answered with a delay`},
	"invalid-check-without-second-handler":      {`22: checks[0].leadGained: requires a secondHandler`},
	"invalid-second-handler": {
		`10: secondHandler: requires a handler under test`,
		`10: secondHandler.feature: "rebalance" is not known; did you mean "rebalance-event"? allowed: spot, state-change, scheduled-change, scheduled-change-at-once, scheduled-change-status, rebalance-event, rebalance-drain, capacity-reservation, karpenter-order, launch, limits, pod-eni, drift, consolidation, multi-node-consolidation, spot-consolidation, emptiness, expiration, daemon-sets, disruption-budget, without-queue, instance-returns, two-handlers, lifecycle-action, status-check, capacity-block`,
		`10: secondHandler.name: must not be empty`,
		`10: secondHandler.queue: "both" is not known; allowed: shared, own`,
		`24: checks[0].leadGained.atLeast: must be more than 0s`,
		`24: checks[0].leadGained.notice: "advice" is not known; allowed: reclaim`,
	},
	"invalid-check-alternatives": {
		`21: checks[0].losses: requires exactly one of: max, answered, a window by minWindow, maxWindow or both`,
		`22: checks[1].losses.exceptConntrack: is only allowed with max, of dns`,
		`23: checks[2].losses.answered: 100.1 is not above 0 and at most 100`,
		`24: checks[3].losses.answered: is only allowed of dns`,
		`25: checks[4].losses.of: "udp" is not known; allowed: dns, application`,
		`26: checks[5].calls.to: "ec2" is not known; allowed: queue, api`,
		`27: checks[6].noEviction.node: "" is not known; allowed: victim`,
		`28: checks[7].noEviction: requires exactly one of: pods, daemonPods`,
		`29: checks[8].removed.of: "again" is not known; allowed: reclaim`,
		`30: checks[9].marked: requires exactly one of: within, beforeEviction, untilGone`,
		`31: checks[10].marked.after: "outage" is not known, and nothing is defined to choose from`,
		`31: checks[10].marked.after: is only allowed with within`,
		`32: checks[11].reported: requires exactly one of: node, text`,
		`33: checks[12].drained.terminating: is not allowed with within or pods`,
	},
	"invalid-old-checks": {
		`23: old spelling of a check; write: - losses: {of: dns, mode: all, max: 0}`,
		`24: old spelling of a check; write: - losses: {of: dns, mode: fresh, minWindow: 1s, maxWindow: 2s}`,
		`25: old spelling of a check; write: - losses: {of: dns, mode: all, answered: 99.9}`,
		`26: old spelling of a check; write: - losses: {of: application, mode: all, max: 0}`,
		`27: old spelling of a check; write: - losses: {of: application, mode: all, maxWindow: 5s}`,
		`28: old spelling of a check; write: - calls: {to: queue, per: 30s, during: outage, max: 150}`,
		`29: old spelling of a check; write: - calls: {to: api, max: 30, per: 10s}`,
		`30: old spelling of a check; write: - noEviction: {node: victim, pods: app}`,
		`31: old spelling of a check; write: - noEviction: {daemonPods: true, node: victim}`,
		`32: old spelling of a check; write: - removed: {node: victim, within: 5s}`,
		`33: old spelling of a check; write: - removed: {of: launch, within: 5s}`,
		`34: old spelling of a check; write: - marked: {beforeEviction: true, node: victim, notice: reclaim}`,
		`35: old spelling of a check; write: - marked: {untilGone: true, node: victim, notice: reclaim}`,
		`36: old spelling of a check; write: - retried: {fault: closed, within: 10s}`,
		`37: old spelling of a check; write: - reported: {node: victim, notice: reclaim, within: 10s}`,
		`38: old spelling of a check; write: - reported: {notice: reclaim, text: nvidia.com/gpu, within: 10s}`,
		`39: old spelling of a check; write: - drained: {terminating: true, node: victim, notice: reclaim}`,
		`40: old spelling of a check; write: - endpointStays: {node: victim, atLeast: 20s}`,
	},
	"invalid-delayed-name": {`19: probe.name: delayed.spotdrill.test. needs coredns.delay: otherwise there is no such name`},
}

func TestInvalid(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(invalid) {
		t.Errorf("%d files, and %d of them have a message", len(files), len(invalid))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			_, err := verdict.Scenarios().LoadFile(file)
			if err == nil {
				t.Fatal("loads")
			}
			var want []string
			for _, line := range invalid[name] {
				want = append(want, filepath.ToSlash(file)+":"+line)
			}
			if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// Otherwise every invalid file could be refused for another reason.
func TestTheFileThatTheInvalidOnesAreMadeFromLoads(t *testing.T) {
	s, err := verdict.Scenarios().LoadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.File != "testdata/valid.yaml" || string(s.Text) != string(text) {
		t.Errorf("file %q, text %q", s.File, s.Text)
	}
	if s.Handler != HandlerUnderTest || *s.Probe != DefaultProbe() {
		t.Errorf("defaults: handler %q, probe %+v", s.Handler, *s.Probe)
	}
	if s.Deadline.For(Fast) != 20*time.Second || s.Deadline.For(Full) != 120*time.Second {
		t.Errorf("deadlines %+v", s.Deadline)
	}
	if got := s.Expected(Fast); got != 25*time.Second {
		t.Errorf("expected to take %s", got)
	}
}

func TestAScenarioNamesOnlyTheCoreDNSSettingsThatDiffer(t *testing.T) {
	text, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "coredns:\n")
	_, after, _ := strings.Cut(rest, "gracePeriod: 30s\n")
	for given, change := range map[string]func(*coredns.Settings){
		"":                          func(*coredns.Settings) {},
		"coredns:\n":                func(*coredns.Settings) {},
		"coredns: {lameduck: 0s}\n": func(s *coredns.Settings) { s.Lameduck = 0 },
		"coredns:\n  corefile: |\n    .:53 {\n      whoami\n    }\n": func(s *coredns.Settings) { s.Corefile = ".:53 {\n  whoami\n}\n" },
		"coredns:\n  corefile: |\n    .:53 {\n      health {\n        lameduck 12s\n      }\n    }\n": func(s *coredns.Settings) {
			s.Corefile, s.Lameduck = ".:53 {\n  health {\n    lameduck 12s\n  }\n}\n", strict.Duration(12*time.Second)
		},
		"coredns:\n  lameduck: 5s\n  corefile: |\n    .:53 {\n      health {\n        lameduck 12s\n      }\n    }\n": func(s *coredns.Settings) {
			s.Corefile = ".:53 {\n  health {\n    lameduck 12s\n  }\n}\n"
		},
		"coredns: {readiness: {period: 1s}}\n": func(s *coredns.Settings) { s.Readiness.Period = strict.Duration(time.Second) },
	} {
		want := coredns.Defaults()
		change(&want)
		if s, err := verdict.Scenarios().Parse("valid.yaml", []byte(before+given+after)); err != nil || !s.CoreDNS.Equal(want) {
			t.Errorf("%q: %s, %v, want %s", given, s.CoreDNS, err, want)
		}
	}
}

func TestAGivenProbeRateIsKept(t *testing.T) {
	text, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := verdict.Scenarios().Parse("valid.yaml", []byte(strings.Replace(string(text), "probe: {}", "probe: {fresh: 7}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultProbe()
	want.Fresh = 7
	if *s.Probe != want {
		t.Errorf("probe %+v, want %+v", *s.Probe, want)
	}
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	if _, err := verdict.Scenarios().LoadFile("testdata/none.yaml"); err == nil || !strings.HasPrefix(err.Error(), "read scenario: ") {
		t.Errorf("error %v", err)
	}
}

// FuzzParse: no file makes the loader panic, and what it accepts has the file's name, a
// step and a check.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := verdict.Scenarios().Parse("valid.yaml", text)
		if err != nil {
			_, _ = verdict.Scenarios().ParseRecorded("valid.yaml", text) // must not panic either
			if !strings.HasPrefix(err.Error(), "valid.yaml:") {
				t.Errorf("does not name the file: %v", err)
			}
			return
		}
		if s.Name != "valid" || len(s.Steps) == 0 || len(s.Checks) == 0 {
			t.Errorf("let through: %+v", s)
		}
		if again, err := verdict.Scenarios().ParseRecorded("valid.yaml", text); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("recorded, it is %+v, %v", again, err)
		}
	})
}

// steps lists the YAML keys of the kinds of steps, as errors do.
func steps() string {
	var keys []string
	for i := range reflect.TypeFor[Step]().NumField() {
		key, _, _ := strings.Cut(reflect.TypeFor[Step]().Field(i).Tag.Get("yaml"), ",")
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// checks lists those of the kinds of checks.
func checks() string {
	var keys []string
	for _, k := range verdict.Scenarios().Kinds {
		keys = append(keys, k.ID)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}
