// Order of the test files of a run: a long file that starts last keeps one worker busy while the others are idle.
import { join } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { root } from "./run-tool.ts";

/** Files that take more than 20 s, by suite, the longest first. */
export const longest = [
  "docker/agent-killed",
  "docker/conformance",
  "docker/agent-instance",
  "docker/agent-life",
  "docker/isolation",
  "docker/shell",
  "docker/terminal",
  "docker/faults",
  "integration/console/pages",
  "integration/clients/clients",
  "integration/console/operator",
  "integration/console/console",
  "integration/replicas/workers",
  "integration/accounts/backup-restore",
  "integration/console/account",
  "integration/agent/sleep",
  "integration/agent/frozen",
  "integration/console/fleet",
  "integration/fleet/enrolment",
  "integration/fleet/process",
  "integration/agent/adoption",
  "integration/console/security",
  "integration/agent/failures",
  "integration/fleet/sessions",
  "integration/replicas/two-control-planes",
  "integration/billing/usage-days",
  "integration/agent-ingress/expired-certificates",
  "integration/accounts/account-mails",
  "integration/accounts/sign-in",
  "integration/responses/stored-responses",
  "integration/inference/formats",
  "integration/agent-ingress/fairness",
  "integration/tracing/one-trace",
  "integration/accounts/key-limits",
  "integration/store/migrations",
  "integration/deployments/rollout",
  "integration/metrics/prometheus",
  "e2e/docs/guides",
  "e2e/scaling/scaling",
  "e2e/up/life",
  "e2e/up/model",
  "e2e/sleep/sleep",
  "e2e/spine/adapter",
  "e2e/spine/real-model",
  "e2e/spine/provider-limits",
  "e2e/runtime/completions",
  "e2e/runtime/speech",
  "e2e/runtime/tools",
  "e2e/spine/node-join",
  "chaos/agent-stopped",
  "chaos/control-plane-away",
  "chaos/restored-database",
  "chaos/seeds/seeds",
  "chaos/webhooks",
  "chaos/database-away",
  "chaos/clock-step",
  "chaos/database-full",
  "chaos/revocation",
  "chaos/agent-killed-after-record",
  "chaos/batch-killed",
  "chaos/agent-restart",
  "chaos/database-frozen",
  "chaos/redis-away",
  "security/scim",
  "security/identity-providers",
  "security/workload-identity",
  "security/web-sockets",
  "conformance/batch-queue",
  "conformance/repeated-jobs",
  "conformance/driver",
];
export const pathOf = (name: string): string => join(root, "test", `${name}.test.ts`);
const places = new Map(longest.map((name, place) => [pathOf(name), place]));
const placeOf = (file: TestSpecification): number => places.get(file.moduleId) ?? longest.length;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}
