// Tests that only the nightly run runs: too long for every change.

/** Tests of the same promise that run at every change: `file > title of its test or suite`. */
type Counterparts = readonly string[] | PartialCounterparts;

/** Tests of parts of the promise. `./scripts/test` prints the rest. */
interface PartialCounterparts {
  readonly tests: readonly string[];
  /** The part that no test of every change proves, and why. */
  readonly notProven: string;
}

/** Test files as paths under `test/`. */
export const nightlyOnly: Readonly<Record<string, Counterparts>> = {
  "chaos/adapter-swap": [
    "e2e/spine/adapter > is still served after kill -9 of the agent, without being loaded again",
    "integration/agent/adapters > are loaded again into an engine that was restarted",
  ],
  "chaos/hub-away": [
    "integration/weights/hub-misbehaves > asks for the rest of the very file it has a part of",
    "integration/weights/neighbour > a neighbour's word for a pinned commit holds only until the hub answers, and is not passed on",
  ],
  "chaos/limit-under-kill": [
    "chaos/seeds/seeds > keeps every invariant at every instant, and bills what was delivered (seed %i)",
    "integration/billing/budgets > of USD 0.01 is never passed by 500 parallel requests on two replicas while a third dies, and none of it stays stranded",
  ],
  "chaos/sleep": [
    "e2e/runtime/sleep > keeps no contexts while it sleeps, and generates the same text after each wake",
    "integration/agent/sleep > starts an instance again whose process is killed while it wakes",
  ],
  "chaos/clock-step": [
    "unit/agent/session/clock-and-reconnect > advances with the monotonic clock, whatever the wall clock does",
    "unit/agent/metering/gpu-meter > never overlaps, shrinks or exceeds what the monotonic clock saw, whatever control-plane time does",
    "integration/fleet/registration > has the database's time where the wall clock is off by %d ms",
    "integration/webhooks/delivery > are signed at the database's time where the wall clock of the control plane is an hour ahead",
  ],
  "chaos/database-frozen": [
    "chaos/database-away > returns 503 from management at once, continues inference within its slices, loses nothing, and recovers unaided",
    "integration/store/frozen > rejects work in progress, waiting and new while PostgreSQL is frozen, and works again afterwards",
  ],
  "chaos/database-full": {
    tests: [
      "unit/control-plane/store/core/outage > recognises a full disk that the server reports as an I/O or internal error",
      "chaos/database-away > returns 503 from management at once, continues inference within its slices, loses nothing, and recovers unaided",
      "integration/agent-ingress/full-disk > writes ten times the disk's size of records that are acknowledged, with a log below an eighth of it",
    ],
    notProven: "each record is settled exactly once after the disk of PostgreSQL was full: needs a disk of its own",
  },
  "chaos/agent-killed-after-record": [
    "integration/billing/settlement > captures once per request whatever attempts arrive in whatever order, and books the void ones as our loss",
    "integration/billing/lost-attempts > bills what was delivered once the host has been lost for a minute, and a late record changes no bill",
  ],
  "chaos/agent-stopped": [
    "integration/fleet/sessions > gets no new routes after its lease, is replaced after the longer silence, and loses its copy when it returns",
    "integration/fleet/sessions > is not replaced when most hosts fall silent together",
  ],
  "chaos/batch-killed": [
    "integration/batches/runner > a batch with two jobs at two control planes is run by one of them, and no line twice",
    "integration/batches/runner > jobs lost with the queue are created again from the table, also while a batch runs",
    "conformance/batch-queue > goes on after its server was killed or wiped, and what runs is not disturbed",
    "chaos/seeds/seeds > keeps every invariant at every instant, and bills what was delivered (seed %i)",
  ],
  "chaos/revocation": [
    "integration/accounts/accounts > stops within 2 s of a revocation by another replica",
    "integration/accounts/operator > reach every replica's key cache in under two seconds, and so does lifting them",
    "integration/accounts/scoped-jwt > a revoked key",
  ],
  "chaos/control-plane-away": [
    "integration/fleet/sessions > routes from its first second and moves nothing, however long it was down",
  ],
  "chaos/agent-restart": [
    "integration/agent/adoption > adopts the same model server at the same address after kill -9, without a reload",
    "e2e/spine/llama-server > is adopted by the next agent after kill -9, and finishes its running requests in a drain",
    "chaos/seeds/seeds > keeps every invariant at every instant, and bills what was delivered (seed %i)",
  ],
  "chaos/webhooks": [
    "chaos/seeds/seeds > keeps every invariant at every instant, and bills what was delivered (seed %i)",
    "integration/webhooks/delivery > one call",
    "integration/webhooks/delivery > due calls",
  ],
  "contract/relay-alone": ["contract/relay > over one connection per agent"],
  // The next eight build images. So does `docker/vllm-image`.
  "docker/agent-image": [
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
    "docker/agent-life > reports an instance that was killed for its memory with its limit, and leaves its neighbour alone (P14)",
    "docker/conformance > on a real engine, the",
  ],
  "docker/compose": [
    "unit/deploy/examples > run as a stack of images that the scripts build, with variables that its programs know",
    "chaos/redis-away > loses no response and no usage record when Redis is killed, started and flushed under load",
  ],
  "docker/image-contents": ["unit/scripts/sbom > writes a valid CycloneDX document of the package stoker"],
  "docker/real-model": [
    "docker/agent-life > reports an instance that was killed for its memory with its limit, and leaves its neighbour alone (P14)",
    "docker/conformance > on a real engine, the",
  ],
  "docker/reproducible": [
    "unit/scripts/image-steps > runs each command so that the times of what it changes are fixed",
    "unit/scripts/image-steps > copies whole trees onto / whose times are fixed",
  ],
  "docker/release": [
    "unit/scripts/release > names the image by digest, and the commit, lock file and base that it was built from",
    "contract/cli-package > runs without the repository",
  ],
  // Needs a program that Go builds in minutes (scripts/go-tools.sh cosign).
  "integration/scripts/cosign": [
    "unit/scripts/release > names the image by digest, and the commit, lock file and base that it was built from",
  ],
  "docker/rental": {
    tests: [
      "contract/container-statuses > every endpoint of containers and its statuses",
      "unit/agent/docker/rental-port > keeps the port of a rental that is created again, and gives none the port of another",
    ],
    notProven: "a real rental: needs an image with an SSH server (docs/security.md, Rentals)",
  },
  "docker/rental-driver": {
    tests: [
      "unit/agent/docker/rental-firewall > the rules of rentals",
      "unit/agent/docker/rental-profile > a firewall of rentals that cannot be upheld",
    ],
    notProven: "the isolation of real rentals: needs an image with an SSH server (docs/security.md, Rentals)",
  },
  "docker/agent-killed": [
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
    "integration/agent-backups/filesystem > a restore killed when %s leaves one whole content: the %s",
  ],
  "docker/engine-restarted": [
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
  ],
  "docker/vllm-image": [
    "integration/agent/foreign-engines > the plan of %s %s",
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
    "integration/agent/stop-order > closes the gate, waits for the drain deadline, cuts, and kills an engine with its child that ignore SIGTERM",
  ],
  "docker/agent-instance": [
    "docker/conformance > on a real engine, the",
    "integration/agent-backups/filesystem > a restore killed when %s leaves one whole content: the %s",
    "integration/agent-backups/filesystem > a backup killed when %s leaves the data and no half backup",
  ],
  "docker/terminal": [
    "docker/shell > runs what is typed, knows its size and reports the shell's exit code",
    "integration/agent-instances/terminal > passes what is typed and printed, the size and the exit code",
  ],
  // The next three need programs that nothing here installs (docs/operations/engines.md).
  "e2e/engines/infinity": {
    tests: [
      "contract/task-answers > come to the official client, by the model's own name at the engine",
      "e2e/runtime/gateway-tasks > serves the official client with the reference's vectors, and costs what its tokens cost",
    ],
    notProven: "Infinity as an external server: needs a program that nothing here installs",
  },
  "e2e/engines/vllm": [
    "integration/agent/foreign-engines > the plan of %s %s",
    "unit/agent/engines/plan-arguments > accepts every argument that a customer may give, with every value that plans let through",
  ],
  "e2e/engines/vllm-streams": ["chaos/streams > gives each client the text of an unbroken run, and bills it once"],
  "e2e/runtime/adapters": ["e2e/spine/adapter > serves like its reference on the running base, which serves as before"],
  "e2e/runtime/demo-lines": ["e2e/spine/real-model > is called by the lines of its record as they stand"],
  "e2e/runtime/image-adapters": [
    "unit/runtime/tasks/image-adapters > an image adapter's names",
    "integration/agent/adapters > of a picture model are one file, which must be a LoRA before the engine reads it",
  ],
  "e2e/runtime/image-latents": [
    "unit/runtime/tasks/image-schedules > equal the reference implementation's for %s with %j",
    "e2e/runtime/gateway-tasks > a real diffusion pipeline behind the gateway",
  ],
  "e2e/runtime/images": ["e2e/runtime/gateway-tasks > a real diffusion pipeline behind the gateway"],
  "e2e/runtime/llama-server": [
    "e2e/spine/llama-server > serves a chat whole and streamed with one text, and bills what the server counted",
    "e2e/spine/anthropic-provider > serves Responses and Messages, whole and as streams",
  ],
  "e2e/runtime/messages": [
    "contract/anthropic-client > creates a message",
    "e2e/runtime/completions > streams a chat whose usage frame stands alone before the end",
    "e2e/runtime/tools > are made once, by the tool that was named, with arguments of its schema",
  ],
  "e2e/runtime/options": [
    "unit/runtime/llama/sequences > never counts what another scope left, however well it fits",
    "e2e/runtime/completions > reports the tokens of a long prefix it had seen as cached",
  ],
  "e2e/runtime/transcription": [
    "e2e/runtime/gateway-tasks > transcribes speech over a WebSocket as it is spoken, billed by its duration",
    "security/long-audio > holds two of six two-hour files of one account in the engine, and lets others in beside them",
    "unit/runtime/audio/recording > is decoded twice instead of held whole",
  ],
  "e2e/runtime/word-times": ["unit/runtime/tasks/align-tokens > tokens found again in their text"],
  "e2e/sleep/ten-models": [
    "integration/agent/sleep > has one of two awake on one GPU, whichever is awaited, and restarts neither",
    "e2e/runtime/sleep > keeps no contexts while it sleeps, and generates the same text after each wake",
  ],
  "e2e/spine/embedding-model": [
    "e2e/runtime/gateway-tasks > serves the official client with the reference's vectors, and costs what its tokens cost",
    "e2e/runtime/embeddings > gives the reference's embeddings, one by one and in a batch, and counts their tokens",
  ],
  "e2e/spine/embedding-servers": ["integration/agent/foreign-engines > the plan of %s %s"],
  "e2e/spine/spoken-text": [
    "e2e/runtime/speech > is understood: at least four of five words come back from a speech recogniser",
  ],
  "e2e/up/emptied-agent": [
    "e2e/up/life > ends its children after kill -9, and a new start stops PostgreSQL and keeps the account",
    "integration/fleet/enrolment > returns with a token that its operator puts beside its state, while its agent runs",
  ],
  "e2e/up/restored": [
    "chaos/restored-database > has all usage again after a restore, once, and reports how much came back",
    "integration/accounts/backup-restore > leaves the old database, or the new one that control planes refuse, when killed, and a retry restores and removes the remains",
  ],
  "e2e/up/several-models": [
    "e2e/up/model > deploys the model by the product's own API and offers it to all accounts",
    "unit/scripts/first-models > deploys the small model by default, several in their order and each once, or none",
  ],
  "e2e/up/tls": ["security/public-tls > serves every kind of request over TLS, and requires it of browsers"],
  // Fetches PostgreSQL 17.
  "e2e/up/upgrade-database": [
    "integration/supervisor/upgrade-database > has every row, and names the databases and roles that it leaves behind",
    "integration/supervisor/upgrade-database > are completed at the next start after a kill between the renames",
    "integration/supervisor/upgrade-database > is refused with the command that upgrades it",
  ],
  "e2e/upgrade/side-by-side": [
    "integration/store/migrations > has the same catalogue after the upgrade as a new database, and retains every row",
  ],
  "e2e/scaling/scaling": [
    "integration/deployments/wake > is woken once by fifty callers at two replicas, who see its progress",
    "integration/deployments/rollout > starts a new instance beside the old one, which retains its arguments and requests until the new one serves",
    "integration/deployments/rollout > changes the instance in place if no other GPU is free",
    "unit/simulator/scaling > the autoscaler",
  ],
  "e2e/sleep/sleep": [
    "integration/agent/sleep > puts an unused instance to sleep and wakes it for a request, in one process",
    "integration/agent/sleep > starts an instance again whose process is killed while it wakes",
    "e2e/runtime/sleep > keeps no contexts while it sleeps, and generates the same text after each wake",
  ],
  "e2e/spine/provider-limits": [
    "integration/billing/provider-costs > is met exactly by 200 requests at once over two control planes",
    "integration/billing/provider-costs > keeps its part of the provider's limit until its attempt there is recorded",
  ],
  "e2e/spine/provider-health": [
    "e2e/spine/anthropic-provider > is passed over when its stream fails before the first output",
    "e2e/spine/anthropic-provider > gets no more requests once it refuses the key",
    "unit/control-plane/inference/target-health > the circuit breaker of an external server",
  ],
  "e2e/spine/report-replica": [
    "integration/store/report-replica > reads the primary when the replica dies, from the first statement, and the replica when it is back",
  ],
  "e2e/spine/request-labels": [
    "contract/request-ids > gives a thousand requests with one x-request-id ids of their own",
  ],
  // The next three need programs that Go builds in 20 minutes (scripts/go-tools.sh kubernetes).
  "conformance/kubernetes-driver": [
    "unit/agent/kubernetes/pod-of-plan > the Pod of a plan",
    "unit/agent/kubernetes/observe-pod > the observation of a Pod",
  ],
  "integration/deploy/kubernetes": [
    "unit/agent/kubernetes/agent-lease > the lease of an agent",
    "unit/agent/kubernetes/api-fault > tells the reason of a failed call (%#)",
  ],
  "integration/deploy/chart": [
    "unit/deploy/chart > has defaults and examples that its schema accepts, which refuses what it does not name",
  ],
  "integration/metrics/alerts": [
    "unit/deploy/alerts > each alert asks for metrics that a page has, and says in a sentence what is wrong",
    "unit/deploy/alerts > each alert has a test of its own, which expects it and no other",
  ],
  "integration/accounts/backup-refusals": [
    "integration/accounts/backup-restore > leaves database and secrets unchanged if the backup is damaged",
  ],
  // axe over every page.
  "integration/console/pages": [
    "integration/console/console > shows every page of the menu, which a telephone opens by a button",
  ],
  // Its browser's part; the rules are tested without one.
  "integration/console/security": [
    "security/second-factors > uses only the code that finishes the sign-in when two come at once",
    "security/second-factors > signs in alone where it verified its user, and beside the password where it did not",
  ],
  "integration/clients/every-client": [
    "contract/openai-client > the official client",
    "contract/anthropic-client > Anthropic's client",
  ],
  "integration/clients/socket-clients": [
    "contract/realtime > transcribes what the client commits, billed like the same audio over HTTP",
    "contract/stream-input > speaks its text in pieces, billed by the character like the same text over HTTP",
  ],
  "integration/clients/stream-events": [
    "contract/responses-client > streams text",
    "contract/anthropic-client > streams named events in order",
  ],
  "integration/console/account": [
    "integration/console/console > shows the first key of a new account",
    "contract/token-statuses > API keys and scoped tokens",
  ],
  "integration/console/fleet": [
    "integration/console/console > finds an account, suspends it with a reason and lifts the suspension",
    "contract/host-statuses > hosts and what runs on them",
    "contract/node-operation-statuses > hosts taken out of use",
  ],
  "integration/console/members": [
    "contract/member-statuses > lead a person into the organization, with a key that is theirs and ends when they leave",
    "contract/login-pages > offers the person's organizations, and gives a key of the one that is chosen and no other",
  ],
  "integration/console/operator": [
    "integration/console/console > finds an account, suspends it with a reason and lifts the suspension",
    "contract/act-as > is one entry of the audit log, with the operator",
  ],
  "integration/clients/clients": [
    "contract/openai-client > the official client",
    "contract/responses-client > the official client",
    "contract/anthropic-client > Anthropic's client",
    "contract/cli-model > the command line",
  ],
  "integration/control-plane/audio-sockets": [
    "contract/realtime > ends when the key is revoked",
    "contract/realtime > transcribes what the client commits, billed like the same audio over HTTP",
    "contract/stream-input > speaks its text in pieces, billed by the character like the same text over HTTP",
  ],
  "integration/replicas/two-control-planes": [
    "integration/replicas/workers > answers requests from both, and shows the metrics of both on one page",
    "integration/fleet/sessions > is ended when a newer one of the same host begins, also at another replica, and then writes nothing",
    "integration/fleet/sessions > stores its reported leases for every replica",
    "chaos/seeds/seeds > keeps every invariant at every instant, and bills what was delivered (seed %i)",
  ],
  "integration/metrics/prometheus": [
    "unit/deploy/alerts > each alert asks for metrics that a page has, and says in a sentence what is wrong",
    "unit/control-plane/http/series-budget > the page is as Prometheus's own linter wants it",
  ],
  "integration/tracing/one-trace": [
    "unit/proto/trace-sampler > a trace sampler",
    "unit/proto/trace-context > traceHeaders",
  ],
  "integration/oversight/silent-host": [
    "integration/fleet/sessions > gets no new routes after its lease, is replaced after the longer silence, and loses its copy when it returns",
    "unit/control-plane/oversight/judge > is a host that is silent, the more so once it is lost, but not a revoked one",
  ],
  "integration/accounts/key-limits": [
    "integration/replicas/workers > enforces the rate limit of a key across both",
    "chaos/redis-away > applies at both when the operator sets it at one, and counts what runs at the other",
  ],
  "integration/agent-backups/slow-unpack": ["integration/agent-backups/filesystem > on the filesystem store"],
  "integration/fleet/herd": [
    "unit/agent/session/clock-and-reconnect > waits between 0 and 1 s doubled per failure, at most 30 s",
    "integration/fleet/sessions > routes from its first second and moves nothing, however long it was down",
  ],
  "integration/responses/stored-responses": [
    "integration/responses/responses > a response in the background",
    "integration/responses/responses > stored responses",
    "contract/responses-client > the official client",
  ],
  // Needs a program that Go builds in half a minute.
  "integration/billing/stripe-mock": [
    "integration/billing/stripe > opens one customer per account, and portal and checkout pages that return to the console",
    "integration/billing/stripe > reads what is on file, and declines a payment that still asks for a payment method",
  ],
  "integration/billing/projects": [
    "contract/project-statuses > projects",
    "integration/billing/scopes > limits of every scope",
    "integration/billing/scopes > is refused when its %s has no room, and told so",
  ],
  "integration/inference/formats": [
    "contract/openai-client > the official client",
    "contract/responses-client > the official client",
    "contract/anthropic-client > Anthropic's client",
    "e2e/spine/real-model > gives the same text and usage by chat and by responses, whole, streamed and in the background",
    "e2e/spine/anthropic-provider > serves Responses and Messages, whole and as streams",
  ],
  "integration/deployments/placement-groups": [
    "unit/control-plane/deployments/place-index > gives the answer of a comparison of every host, whatever the order of insertion and the previous content",
    "integration/deployments/deploy > several controllers",
  ],
  "integration/deployments/timers": [
    "conformance/deployment-timers > wake one of two control planes when it is time, and nothing of them is left",
    "unit/control-plane/deployments/timers > is the soonest of the loss of a silent host and the deadline of a drain",
  ],
  "integration/deployments/changed-memory": [
    "unit/control-plane/deployments/memory-estimate > the memory of an instance",
    "integration/deployments/rollout > to lower concurrency applies in place, and one to higher concurrency starts a new instance",
  ],
  "integration/supervisor/misconfigured": [
    "integration/fleet/process > reports in one sentence what is wrong with its environment, its database or its secrets",
  ],
  "integration/scripts/nightly": [
    "unit/scripts/nightly-files > includes every test that requests the nightly run, also through a suite that several share",
    "integration/scripts/run-tool > ends the processes that a stopped program started",
  ],
  "integration/accounts/idempotency-relayed": [
    "integration/accounts/idempotency > never runs a paid request again whose holder died",
    "contract/idempotency > an Idempotency-Key",
  ],
  "integration/agent-instances/terminal-cli": [
    "integration/agent-instances/terminal > passes what is typed and printed, the size and the exit code",
  ],
  "integration/agent/crash-loop": [
    "unit/agent/reconcile/back-off > doubles the wait from 10 s, spread by a quarter (random %s), and gives up at the fifth within 30 minutes",
    "integration/agent/failures > starts a server that died again after about ten seconds and leaves its neighbour alone",
  ],
  "integration/deployments/adapters": [
    "integration/agent/adapters > are loaded once the engine is ready, with their two files and no other, and told as ready then",
    "contract/adapter-statuses > LoRA adapters",
    "e2e/spine/adapter > serves like its reference on the running base, which serves as before",
  ],
};

/** Tests of other files that `isNightly` leaves to the nightly run: `file > title`. */
export const nightlyTests: Readonly<Record<string, Counterparts>> = {
  "chaos/restored-database > restores an encrypted backup that was taken under load, on an empty database, with the money right":
    [
      "chaos/restored-database > has all usage again after a restore, once, and reports how much came back",
      "integration/accounts/backup-restore > leaves the old database, or the new one that control planes refuse, when killed, and a retry restores and removes the remains",
    ],
  // At every change the guides that load few models.
  "e2e/docs/guides > works as it stands: %s": [
    "e2e/spine/message-batches > runs messages in a batch, at the price of batches, and lists what became of each",
    "contract/scoped-tokens > sees only its models in the list",
    "e2e/up/model > deploys the model by the product's own API and offers it to all accounts",
    "e2e/spine/adapter > serves like its reference on the running base, which serves as before",
    "e2e/runtime/gateway-tasks > a real diffusion pipeline behind the gateway",
    "e2e/runtime/speech > a model server with a Piper voice",
  ],
  "e2e/runtime/speech > a model server with Kokoro": [
    "e2e/runtime/speech > a model server with a Piper voice",
    "unit/runtime/tasks/speech-text > is a preset, the end of its name, or a blend whose parts add up to 1",
    "contract/voices-statuses > is the blend that the model server measured, and says so",
  ],
  "e2e/spine/adapter > is served after its engine was killed while it loads, and so is its base": {
    tests: ["integration/agent/adapters > are loaded again into an engine that was restarted"],
    notProven: "an adapter whose engine is killed while it loads: starts a second model server",
  },
  "e2e/spine/llama-server > serves Responses and Messages": [
    "e2e/spine/anthropic-provider > serves Responses and Messages, whole and as streams",
    "e2e/spine/real-model > gives the same text and usage by chat and by responses, whole, streamed and in the background",
  ],
  "e2e/spine/llama-server > applies repetition_penalty to the whole reply, which it ignores under that name": [
    "contract/output-formats > have the names of llama.cpp's server where all instances are that",
  ],
  "e2e/spine/real-model > adopts the same model process after kill -9 of an idle agent, without a reload": [
    "integration/agent/adoption > adopts the same model server at the same address after kill -9, without a reload",
  ],
  "e2e/spine/real-model > loses no usage and bills none twice when the control plane is killed mid-stream": [
    "chaos/seeds/seeds > keeps every invariant at every instant, and bills what was delivered (seed %i)",
  ],
  "e2e/spine/real-model > gives a resumable stream the text of an unbroken one, and bills it once, when %s is killed": [
    "chaos/streams > gives each client the text of an unbroken run, and bills it once",
  ],
  "e2e/spine/real-model > gives four resumable streams side by side the texts of streams alone, and bills each once, when %s is killed":
    ["chaos/streams > gives each client the text of an unbroken run, and bills it once"],
  "e2e/spine/real-model > moves and restarts nothing while the control plane is unavailable": [
    "integration/fleet/sessions > routes from its first second and moves nothing, however long it was down",
  ],
  "e2e/up/model > leaves no model server behind after Ctrl-C, and serves the same deployment from the same data": [
    "e2e/up/life > stops every child at Ctrl-C, releases the folder and exits with 0",
    "integration/agent/adoption > takes its model servers along when its supervisor is gone, and brings them back at the next start",
  ],
  "integration/accounts/account-mails > leads a person who forgot the password from the sign-in page through the mail to a session":
    [
      "integration/accounts/account-mails > sets a new password once, ends sessions and other links, verifies the address and tells the owner",
      "contract/login-pages > signs in by its form, sets the cookie and goes on to what was asked for",
    ],
  "integration/accounts/backup-restore > leaves the new database when killed while it drops the old one, which a retry removes":
    [
      "integration/accounts/backup-restore > leaves the old database, or the new one that control planes refuse, when killed, and a retry restores and removes the remains",
    ],
  "integration/agent/adoption > adopts its model servers when its own state is lost": [
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
    "conformance/process-adoption > adopts a process whose pid the agent had no time to write down",
  ],
  "integration/agent/adoption > takes its model servers along when told to, on SIGTERM": [
    "integration/agent/adoption > takes its model servers along when its supervisor is gone, and brings them back at the next start",
  ],
  "integration/agent/adoption > serves a scrape with the phase of its instances": [
    "integration/agent/pages > hold GPUs under our names and DCGM's, the host, the instances' processes and what failed",
  ],
  "integration/fleet/process > serves while its key-encryption key is rotated, and restarts with only the new file": [
    "integration/accounts/rotate-kek > a control plane that runs during a rotation",
  ],
  "integration/fleet/process > responds beside clients that connect and send nothing, uses little memory for them, and closes them (F14)":
    [
      "integration/control-plane/idle-connections > are closed after their bound: those that never spoke, that began a request, and that came back no more",
    ],
  "integration/replicas/workers > stops all workers with their parent on SIGTERM, and exits with 0": [
    "integration/replicas/workers > stops its workers when it is killed, and serves again after its next start",
    "integration/replicas/workers > stops in order where a service manager signals every process",
  ],
};

export const counterpartsOf = (entry: Counterparts): readonly string[] => ("tests" in entry ? entry.tests : entry);

/** Promises that only the nightly run proves, one line for each entry that has a reason. */
export function provenAtNight(entries: Readonly<Record<string, Counterparts>>): readonly string[] {
  return Object.entries(entries).flatMap(([name, entry]) =>
    "notProven" in entry ? [`${name.split(" > ")[0]}: ${entry.notProven}`] : [],
  );
}

export const pathOfTest = (name: string): string => `test/${name}.test.ts`;
