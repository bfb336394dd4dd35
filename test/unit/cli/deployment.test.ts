import { describe, expect, it } from "vitest";
import { CliError, exitCode } from "../../../cli/cli-error.ts";
import { type Deployment, waitUntilDeployed } from "../../../cli/commands/deploy.ts";
import type { Terminal } from "../../../cli/terminal.ts";

const gib = 1024 ** 3;
const first: Deployment = {
  ...{ deploy_id: "D1", model_name: "ada/llm", status: "initializing", fail_reason: "", created_at: "" },
  instances: { running: 0, pending: 1, warming: 0 },
};
const downloading = (bytes: number): Deployment => ({
  ...{ ...first, status: "downloading" },
  progress: { phase: "downloading", done_bytes: bytes, total_bytes: 4 * gib, trouble: "" },
});

/** What the server answers in turn, the last one for good, and what a terminal shows of it. */
async function seen(...answers: readonly (Deployment | Error)[]) {
  const lines: string[] = [];
  const left = [...answers];
  const terminal = {
    progress: (line: string) => void lines.push(line),
    api: {
      async call() {
        const next = left.length > 1 ? left.shift() : left[0];
        if (next instanceof Error) throw next;
        return next;
      },
    },
  } as unknown as Terminal;
  const last = await waitUntilDeployed(terminal, first, 60, 1).catch((error: CliError) => error);
  return { lines, last };
}

describe("waitUntilDeployed", () => {
  it("prints each phase, and downloads in steps of five percent", async () => {
    const bytes = Array.from({ length: 101 }, (_, percent) => downloading((percent / 100) * 4 * gib));
    const loading: Deployment = {
      ...{ ...first, status: "deploying" },
      progress: { phase: "loading", done_bytes: 0, total_bytes: 0, trouble: "" },
    };
    const { lines, last } = await seen(...bytes, loading, { ...first, status: "deployed" });
    expect(last).toMatchObject({ status: "deployed" });
    expect(lines.slice(0, 3)).toEqual([
      "initializing 0/1",
      "downloading 0/1, 0 % of 4.0 GiB",
      "downloading 0/1, 5 % of 4.0 GiB",
    ]);
    expect(lines.slice(-2)).toEqual(["downloading 0/1, 100 % of 4.0 GiB", "deploying 0/1, loading"]);
    expect(lines).toHaveLength(23);
  });

  it("lists for each host why it is not placed there", async () => {
    const stuck = { ...first, pending_reasons: [{ host: "h1", why: "0 of 4 L4-24GB GPUs are free; 1 needed" }] };
    const { lines } = await seen(stuck, stuck, { ...first, status: "deployed" });
    expect(lines).toEqual([
      "initializing 0/1",
      "initializing 0/1; waiting for a host:\n  h1: 0 of 4 L4-24GB GPUs are free; 1 needed",
    ]);
  });

  it("prints why the last attempt failed while it retries", async () => {
    const trouble = "the last try failed: hub_failed: pypi.org cannot be reached: try again later";
    const stuck = { ...first, progress: { phase: "pending", done_bytes: 0, total_bytes: 0, trouble } };
    const { lines } = await seen(stuck, { ...stuck, status: "deployed" });
    expect(lines).toEqual(["initializing 0/1", `initializing 0/1, pending; ${trouble}`]);
  });

  it("keeps waiting while the server is unavailable, and throws on a rejection or failure", async () => {
    const away = new CliError("it cannot be reached.", exitCode.unavailable);
    const back = await seen(away, away, { ...first, status: "deployed" });
    expect(back.last).toMatchObject({ status: "deployed" });
    expect(back.lines).toEqual(["initializing 0/1", "it cannot be reached. Still waiting."]);
    const refused = new CliError("no such key", exitCode.notAuthenticated);
    expect((await seen(refused)).last).toBe(refused);
    const failed = await seen({ ...first, status: "failed", fail_reason: "hub_gated_no_token: no" });
    expect(failed.last).toMatchObject({ message: "D1 failed: hub_gated_no_token: no", exitCode: exitCode.failed });
  });
});
