// Order of the test files of a run: a long file that starts last keeps one worker busy while the others are idle.
import { join } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { root } from "./run-tool.ts";

/** Files that take more than 20 s, by suite, the longest first. */
export const longest = [
  "docker/agent-instance",
  "docker/engine-restarted",
  "docker/agent-killed",
  "docker/agent-life",
  "docker/isolation",
  "docker/conformance",
  "docker/faults",
  "docker/pull",
  "integration/console/pages",
  "integration/clients/clients",
  "integration/console/console",
  "integration/console/operator",
  "integration/console/fleet",
  "integration/agent/frozen",
  "integration/fleet/sessions",
  "integration/agent/sleep",
  "integration/agent/adoption",
  "integration/accounts/backup-restore",
  "integration/deployments/placement-groups",
  "integration/console/account",
  "integration/fleet/enrolment",
  "integration/fleet/process",
  "integration/batches/run-batch",
  "integration/weights/stores",
  "integration/accounts/backup-refusals",
  "integration/replicas/two-control-planes",
  "integration/console/security",
  "integration/agent/failures",
  "integration/responses/stored-responses",
  "integration/agent-ingress/expired-certificates",
  "integration/agent-ingress/fairness",
  "e2e/docs/guides",
  "e2e/up/life",
  "e2e/up/model",
  "e2e/scaling/scaling",
  "e2e/up/several-models",
  "e2e/up/emptied-agent",
  "e2e/sleep/sleep",
  "e2e/runtime/lifecycle",
  "e2e/spine/adapter",
  "e2e/spine/node-join",
  "e2e/runtime/completions",
  "e2e/runtime/speech",
  "e2e/spine/real-model",
  "chaos/webhooks",
  "chaos/random-kills",
  "chaos/control-plane-away",
  "chaos/agent-stopped",
  "chaos/restored-database",
  "chaos/sleep",
  "chaos/clock-step",
  "chaos/agent-restart",
  "chaos/database-away",
  "chaos/limit-under-kill",
  "chaos/database-full",
  "chaos/redis-away",
  "chaos/revocation",
  "chaos/agent-killed-after-record",
  "chaos/batch-killed",
  "chaos/database-frozen",
  "conformance/batch-queue",
  "conformance/repeated-jobs",
];
export const pathOf = (name: string): string => join(root, "test", `${name}.test.ts`);
const places = new Map(longest.map((name, place) => [pathOf(name), place]));
const placeOf = (file: TestSpecification): number => places.get(file.moduleId) ?? longest.length;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}
