// `stoker voice`, `stoker lora` and `stoker agent open` against the real edge.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { agentId } from "../fakes/agent-instance-ports.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";
import { adasVoice } from "../fakes/voices.ts";
import { runCli } from "./cli-run.ts";

// Each test is half a dozen processes at once, which a busy machine takes its time for.
vi.setConfig({ testTimeout: 120_000 });
let edge: Edge;
let folder: string;
beforeAll(async () => {
  edge = await startEdge();
  folder = mkdtempSync(join(tmpdir(), "stoker-cli-assets-"));
});
afterAll(async () => {
  await edge?.close();
  rmSync(folder, { recursive: true, force: true });
});

const stoker = (...args: string[]) => runCli(edge, apiKey, args);

it("lists, renames and deletes voices by id or prefix, and reports unreadable recordings and unknown voices", async () => {
  const [list, edit, ended, unreadable, upload, aFolder, unknown] = await Promise.all([
    stoker("voice", "list"),
    stoker("voice", "update", "ada her", "--name", "Countess"),
    stoker("voice", "delete", adasVoice.id, "--yes"),
    stoker("voice", "create", "mine", join(folder, "missing.wav")),
    stoker("file", "create", join(folder, "missing.jsonl")),
    stoker("voice", "create", "mine", folder),
    stoker("voice", "delete", "VoiceOfNobody0000000", "--yes"),
  ]);
  expect(list.out).toContain(adasVoice.id);
  expect(edit.out).toBe(`${adasVoice.id} renamed to Countess\n`);
  expect(ended.out).toContain("deleted");
  for (const refused of [unreadable, upload])
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^error: Could not read .*: no such file or folder\.\n$/),
    });
  expect(aFolder).toMatchObject({ code: 2, err: `error: Could not read ${folder}: it is a folder.\n` });
  expect(unknown.code).toBe(4);
});

it("creates, lists and deletes adapters by name, with or without owner", async () => {
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "hf_secret\n");
  const [made, list, status, ended, incomplete] = await Promise.all([
    stoker(
      ...["lora", "create", "ada/ink", "--repo", "ada/ink-lora", "--base", "org/model", "--hf-token-file", tokenFile],
    ),
    stoker("lora", "list"),
    stoker("lora", "get", "ada/ink"),
    stoker("lora", "delete", "ink", "--yes"),
    stoker("lora", "create", "ada/ink", "--base", "org/model"),
  ]);
  expect(made.out).toMatch(/^\w+\n$/);
  expect(made.out + made.err).not.toContain("hf_secret");
  expect(list.out).toContain("ada/ink");
  expect(status.out).toMatch(/^(initializing|downloading|deploying|deployed)/);
  expect(ended.out).toBe("ada/ink deleted\n");
  expect(incomplete).toMatchObject({ code: 2, err: expect.stringContaining("--repo or --url") });
});

it("prints the address that opens the dashboard of an agent instance, by its name", async () => {
  const opened = await stoker("agent", "open", "my-agent");
  expect(opened).toMatchObject({ code: 0, out: `https://${agentId}.example/once\n` });
});

it("says of an empty catalogue of agents what fills it, and in help what each act does to the volume", async () => {
  const { catalog } = edge.deps.agentInstances;
  edge.deps.agentInstances.catalog = () => [];
  const [empty, help] = await Promise.all([stoker("agent", "catalog"), stoker("agent", "--help")]);
  edge.deps.agentInstances.catalog = catalog;
  expect(empty).toMatchObject({ out: "None.\n", err: expect.stringContaining("STOKER_AGENT_CATALOG"), code: 0 });
  expect(help.out).not.toMatch(/ (stop|start|update|delete) one$/m);
});
