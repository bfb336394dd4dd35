// Test files that only the nightly run runs: too long for every change.

/** Paths under `test/`, each with tests of the same promise that run at every change: `file > title of its test or suite`. */
export const nightlyOnly: Readonly<Record<string, readonly string[]>> = {
  "chaos/adapter-swap": [
    "e2e/spine/adapter > is served after its engine was killed while it loads, and so is its base",
    "integration/agent/adapters > are loaded again into an engine that was started anew",
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
    "e2e/sleep/sleep > is started again when its engine is killed asleep, and serves the request that waits",
    "integration/agent/sleep > starts an instance again whose process is killed while it wakes",
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
  // No rental is started at every change (docs/security.md, Rentals).
  "docker/rental": [
    "contract/container-statuses > every endpoint of containers and its statuses",
    "unit/agent/docker/rental-port > keeps the port of a rental that is created again, and gives none the port of another",
  ],
  "docker/rental-driver": [
    "unit/agent/docker/rental-firewall > the rules of rentals",
    "unit/agent/docker/rental-profile > a firewall of rentals that cannot be upheld",
  ],
  "docker/agent-killed": [
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
    "docker/agent-instance > survives kill -9 of its agent in the middle of a restore: one whole content, and the next one goes through",
  ],
  "docker/engine-restarted": [
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
  ],
  "docker/vllm-image": [
    "integration/agent/foreign-engines > the plan of %s %s",
    "docker/agent-life > adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)",
    "integration/agent/stop-order > closes the gate, waits for the drain deadline, cuts, and kills an engine with its child that ignore SIGTERM",
  ],
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
    "e2e/sleep/sleep > gives its memory up, stays deployed, and answers the next request from the same process",
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
    "integration/accounts/backup-restore > leaves the old database when killed, and a retry restores and removes the remains",
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
    "integration/metrics/prometheus > scrapes control planes, agents and engines, and loads every alert",
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
  "integration/clients/every-client": ["integration/clients/clients > clients of other people's making"],
  "integration/clients/socket-clients": [
    "contract/realtime > transcribes what the client commits, billed like the same audio over HTTP",
    "contract/stream-input > speaks its text in pieces, billed by the character like the same text over HTTP",
  ],
  "integration/clients/stream-events": [
    "contract/responses-client > streams text",
    "contract/anthropic-client > streams named events in order",
  ],
};

export const pathOfTest = (name: string): string => `test/${name}.test.ts`;
