package history

import "time"

// What was measured, and by whom. A prober in a cluster that is not spotdrill's own is named by its node;
// the second on a node by node#2, and so on.
const (
	ProberStarted    Kind = "prober.started"
	ProberEnded      Kind = "prober.ended"
	ProberResumed    Kind = "prober.resumed"
	ProberBroke      Kind = "prober.broke"
	ObservationBegun Kind = "observation.begun"
	ObservationEnded Kind = "observation.ended"
	TargetFound      Kind = "target.found"
	ControlChosen    Kind = "control.chosen"
	FlowsRecorded    Kind = "flows.recorded"
	InsertsFailed    Kind = "flows.insert-failed"
	// What the kernel accounts for of CoreDNS, the handler, the probers and kube-proxy next to them.
	ProcessorWaited  Kind = "processor.waited"
	ProcessorStolen  Kind = "processor.stolen"
	DatagramsDropped Kind = "datagrams.dropped"
	MemoryUsed       Kind = "memory.used"
	WaitsRecorded    Kind = "waits.recorded"
)

// The constructors of these events.
var (
	// NewProberStarted is the first event of a prober. Numbers: rate per target, clock_bound (s).
	NewProberStarted = event1(ProberStarted, Node)
	// NewProberEnded is the last event of a prober. Numbers: asked, unsent, dropped (answers), late_p99 (s),
	// late_max (s); without Echo.
	NewProberEnded = event1(ProberEnded, Node)
	// NewProberResumed reports that the record of a prober goes on over another connection, from where it was
	// read, and why the former one ended. Pod; Numbers: took (s, without a connection).
	NewProberResumed = event2(ProberResumed, Node, Note)
	// NewProberBroke reports why the record of a prober ended without its summary. Pod.
	NewProberBroke = event2(ProberBroke, Node, Note)
	// NewObservationBegun reports that DNS has answered everything for a while, and what is observed begins:
	// the command that runs, or nothing.
	NewObservationBegun = event1(ObservationBegun, Note)
	// NewObservationEnded reports that the command has ended, or the time is over. Numbers: took (s), exit_code
	// (of the command).
	NewObservationEnded = event0(ObservationEnded)
	// NewTargetFound reports what a prober queries as the DNS service: kube-dns or node-local-dns. Pod; Note: the
	// names that are queried.
	NewTargetFound = event3(TargetFound, Node, about, IP)
	// NewControlChosen reports which pod is asked directly: of CoreDNS or, with a target, of the workload of
	// that Service.
	NewControlChosen = event3(ControlChosen, about, Pod, IP)
	// NewFlowsRecorded ends the record of a prober's flows. Numbers: flows, overflows (how often events were lost
	// because they came too fast), insert_failed (packets that the kernel dropped, of any flow, because it could not
	// make an entry), resolution (s, how late a flow's times may be), clock_bound (s), cpu (s, what recording used).
	NewFlowsRecorded = event1(FlowsRecorded, Node)
	// NewInsertsFailed reports that the kernel dropped packets because it could not make their connection
	// tracking entries, of whichever flow. Numbers: insert_failed, within (s, before At).
	NewInsertsFailed = event1(InsertsFailed, Node)
	// NewProcessorWaited reports that a thread of a pod was ready to run and had no processor, until At. Numbers:
	// waited (s), ran (s, all threads of the process meanwhile), throttled (s, by the process's own CPU limit; left
	// out if unknown), resolution (s).
	NewProcessorWaited = event1(ProcessorWaited, Pod)
	// NewProcessorStolen reports that this machine is a guest, and its host did not run it though it was ready to run: steal of
	// proc(5). Numbers: stolen (s, of all processors), within (s, before At), cores.
	NewProcessorStolen = event0(ProcessorStolen)
	// NewDatagramsDropped reports that the buffer of a receiving socket was full. Numbers: dropped, within (s,
	// before At).
	NewDatagramsDropped = event1(DatagramsDropped, Pod)
	// NewMemoryUsed reports the memory of a pod's processes. Only the handler's is recorded. Numbers: bytes.
	NewMemoryUsed = event1(MemoryUsed, Pod)
	// NewWaitsRecorded ends the record of what the kernel accounts for. Note: why there is none. Numbers: samples,
	// late_max (s, the longest time between two samples), processes, cpu (s, that recording used).
	NewWaitsRecorded = event0(WaitsRecorded)
)

// Target is the target of a TargetFound or ControlChosen.
func (e Event) Target() string { return e.keyOf(TargetFound, ControlChosen) }

// MemoryInterval is the time from one MemoryUsed of a pod to the next.
const MemoryInterval = 10 * time.Second

// Stolen time is read once in StolenInterval, and recorded if it is LeastStolen of the processors' time or more. The kernel
// counts it in hundredths of a second.
const (
	StolenInterval = time.Second
	LeastStolen    = 0.05
)
