// Test files that only the nightly run runs: too long for every change.

/** Paths under `test/`, each with the tests that check the same promise at every change. */
export const nightlyOnly: Readonly<Record<string, readonly string[]>> = {
  "docker/engine-restarted-start": ["docker/engine-restarted-run"],
  "docker/real-model": ["docker/agent-image"],
  "e2e/runtime/adapters": ["e2e/spine/adapter"],
  "e2e/runtime/demo-lines": ["e2e/spine/real-model", "e2e/spine/embedding-model"],
  "e2e/runtime/image-adapters": ["e2e/runtime/images", "integration/agent/adapters"],
  "e2e/runtime/word-times": ["e2e/runtime/transcription"],
  "e2e/sleep/ten-models": ["e2e/sleep/sleep"],
  "e2e/spine/embedding-servers": ["integration/agent/foreign-engines"],
  "e2e/spine/llama-server": ["integration/agent/foreign-engines"],
  "e2e/spine/spoken-text": ["e2e/runtime/speech"],
  "e2e/up/restored": ["chaos/restored-database", "integration/accounts/backup-restore"],
  "e2e/up/tls": ["security/public-tls"],
};

export const pathOfTest = (name: string): string => `test/${name}.test.ts`;
