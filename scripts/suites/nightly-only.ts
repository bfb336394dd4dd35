// Test files that only the nightly run runs: too long for every change.

/** Paths under `test/`, each with the tests that check the same promise at every change. */
export const nightlyOnly: Readonly<Record<string, readonly string[]>> = {
  "chaos/hub-away": ["integration/weights/hub-misbehaves", "integration/weights/neighbour"],
  "contract/relay-alone": ["contract/relay"],
  // The next five build images.
  "docker/agent-image": ["docker/agent-life", "docker/conformance"],
  "docker/image-contents": ["unit/scripts/sbom"],
  "docker/real-model": ["docker/agent-life", "docker/conformance"],
  "docker/rental": ["contract/container-statuses", "unit/agent/docker/rental-port"],
  "docker/rental-driver": ["docker/isolation", "unit/agent/docker/rental-firewall", "unit/agent/docker/rental-profile"],
  "docker/engine-restarted-start": ["docker/engine-restarted-run"],
  "e2e/runtime/adapters": ["e2e/spine/adapter"],
  "e2e/runtime/demo-lines": ["e2e/spine/real-model"],
  "e2e/runtime/image-adapters": ["unit/runtime/tasks/image-adapters", "integration/agent/adapters"],
  "e2e/runtime/image-latents": ["unit/runtime/tasks/image-schedules", "e2e/runtime/gateway-tasks"],
  "e2e/runtime/images": ["e2e/runtime/gateway-tasks"],
  "e2e/runtime/options": ["unit/runtime/llama/sequences", "e2e/runtime/completions"],
  "e2e/runtime/transcription": ["e2e/runtime/gateway-tasks", "security/long-audio"],
  "e2e/runtime/word-times": ["unit/runtime/tasks/align-tokens"],
  "e2e/sleep/ten-models": ["e2e/sleep/sleep"],
  "e2e/spine/embedding-model": ["e2e/runtime/gateway-tasks", "e2e/runtime/embeddings"],
  "e2e/spine/embedding-servers": ["integration/agent/foreign-engines"],
  "e2e/spine/llama-server": ["integration/agent/foreign-engines"],
  "e2e/spine/spoken-text": ["e2e/runtime/speech"],
  "e2e/up/restored": ["chaos/restored-database", "integration/accounts/backup-restore"],
  "e2e/up/tls": ["security/public-tls"],
  "integration/clients/every-client": ["integration/clients/clients"],
  "integration/clients/socket-clients": ["contract/realtime", "contract/stream-input"],
  "integration/clients/stream-events": ["contract/responses-client", "contract/anthropic-client"],
};

export const pathOfTest = (name: string): string => `test/${name}.test.ts`;
