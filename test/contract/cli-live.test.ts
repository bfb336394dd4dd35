// Commands that run until the user ends them, on a terminal: `top` and `chat`.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { figures, frame, gateAfter } from "../fakes/agent-data-plane.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { openCliTerminal } from "./cli-terminal.ts";

let edge: Edge;
const folder = mkdtempSync(join(tmpdir(), "stoker-live-"));
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(async () => {
  await edge?.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("top", () => {
  it.each([
    ["hosts", ["top"], "1 host  1 GPU", "q"],
    ["deployments", ["top", "--deployments"], "1/1 ready", "Q"],
    ["models", ["top", "--by", "model"], "REQ/S", "\u0003"],
  ])(
    "shows %s until a key ends it, within 80 columns",
    async (_what, args, text, key) => {
      const terminal = openCliTerminal(edge, adminKey, args);
      await terminal.shows(text);
      await terminal.shows("q: quit");
      terminal.type(key);
      expect(await terminal.exited).toBe(0);
      const lines = stripVTControlCharacters(terminal.screen()).split(/\r?\n/);
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    },
    60_000,
  );
});

describe("chat", () => {
  const chunk = (delta: object, finish: string | null, extra: object = {}) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "org/model", choices: [{ index: 0, delta, finish_reason: finish }], ...extra })}\n\n`;
  const usage = { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9, estimated_cost: 0.00000022 };
  const script = (text: string) =>
    edge.agent.script({
      kind: "stream",
      frames: [chunk({ role: "assistant", content: text }, null), chunk({}, "stop", { usage })],
      usage: figures,
    });

  it("answers messages and runs slash commands until /quit", async () => {
    const saved = join(folder, "chat.md");
    const terminal = openCliTerminal(edge, apiKey, ["chat", "org/model", "--system", "Be brief."]);
    await terminal.shows("Chat with org/model. /help lists commands, /quit ends the chat.");
    script("Paris");
    terminal.type("Capital of France?\r");
    await terminal.shows(/Paris\s+3 tokens, [\d.]+ tokens\/s, 0\.0\d+ USD/);
    terminal.type("/stats\r");
    await terminal.shows(/1 answer, 6 tokens in, 3 out, [\d.]+ tokens\/s, 0\.0\d+ USD\. 2 messages are\s+kept\./);
    terminal.type("/system Be kind.\r");
    await terminal.shows("System message: Be kind.");
    terminal.type(`/save ${saved}\r`);
    await terminal.shows(`Saved 3 messages to ${saved}.`);
    terminal.type("/clear\r");
    await terminal.shows("Forgot 2 messages.");
    terminal.type("/model nobody/nothing\r");
    await terminal.shows("Model: nobody/nothing");
    terminal.type("Still there?\r");
    // The chat goes on after an error.
    await terminal.shows(/error: .*nobody\/nothing[\s\S]* \(request id\s+\S+\)/);
    terminal.type("/nonsense\r");
    await terminal.shows("Unknown command /nonsense. /help lists the commands.");
    terminal.type("/help\r");
    await terminal.shows("/save <file>");
    terminal.type("/quit\r");
    expect(await terminal.exited).toBe(0);
    expect(readFileSync(saved, "utf8")).toBe(
      "# Chat with org/model\n\n## system\n\nBe kind.\n\n## user\n\nCapital of France?\n\n## assistant\n\nParis\n",
    );
  }, 90_000);

  it("cancels an answer with Ctrl-C and ends with Ctrl-D", async () => {
    const terminal = openCliTerminal(edge, apiKey, ["chat", "org/model"]);
    await terminal.shows("/quit ends the chat.");
    const { gate, release } = gateAfter(1);
    edge.agent.script({ kind: "stream", frames: [frame("Once upon"), frame(" a time")], usage: figures, gate });
    terminal.type("Tell me a story.\r");
    await terminal.shows("Once upon");
    terminal.type("\u0003");
    await terminal.shows("Cancelled. This message and its answer are not kept.");
    release();
    terminal.type("/stats\r");
    await terminal.shows("0 answers, 0 tokens in, 0 out, 0.000000000 USD. 0 messages are kept.");
    terminal.type("\u0004");
    expect(await terminal.exited).toBe(0);
  }, 60_000);
});
