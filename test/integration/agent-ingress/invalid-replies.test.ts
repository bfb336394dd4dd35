// Replies of an engine that are no answer: they are refused as the engine's failure and cost nothing.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { slackTokens } from "../../../agent/ingress/find-usage.ts";
import type { Ticket, TicketUnits } from "../../../proto/ticket.ts";
import { type Call, type DataPath, instanceId, openCall, startDataPath } from "../../fakes/data-path.ts";
import { startTaskEngine, type TaskAnswer, type TaskEngine } from "../../fakes/task-engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

let engine: TaskEngine;
let path: DataPath;
beforeAll(async () => {
  engine = await startTaskEngine();
  path = await startDataPath(engine.origin);
});
afterAll(async () => {
  await path.close();
  await engine.close();
});

const none = { characters: 0, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };
const unitsOf = (asked: Partial<TicketUnits["asked"]>): TicketUnits => ({
  asked: { ...none, ...asked },
  rates: ["1000000", "1000000", "1000000000", "0"],
});

interface Task {
  readonly task: string;
  readonly ticket: Partial<Ticket>;
  /** A reply of the right shape with this usage. */
  readonly reply: (usage: string) => string;
}
const text = { maxTokens: 4 };
/** Usage of a chat, with the names of Responses and Messages. */
const ofFormats = (usage: string) =>
  usage.replace("prompt_tokens", "input_tokens").replace("completion_tokens", "output_tokens");
const tasks: readonly Task[] = [
  {
    task: "chat/completions",
    ticket: { ...text, stream: false },
    reply: (usage) => `{"choices":[{"message":{"role":"assistant","content":"Hi"}}],"usage":${usage}}`,
  },
  {
    task: "completions",
    ticket: { ...text, stream: false },
    reply: (usage) => `{"choices":[{"text":"Hi"}],"usage":${usage}}`,
  },
  {
    task: "responses",
    ticket: { ...text, stream: false },
    reply: (usage) =>
      `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":${ofFormats(usage)}}`,
  },
  {
    task: "messages",
    ticket: { ...text, stream: false },
    reply: (usage) =>
      `{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":${ofFormats(usage)}}`,
  },
  {
    task: "embeddings",
    ticket: { stream: false, maxTokens: 0, units: unitsOf({ items: 1 }) },
    reply: (usage) => `{"data":[{"embedding":[0.1]}],"usage":${usage}}`,
  },
  {
    task: "rerank",
    ticket: { stream: false, maxTokens: 0, units: unitsOf({ items: 2 }) },
    reply: (usage) =>
      `{"results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.1}],"usage":${usage}}`,
  },
  {
    task: "score",
    ticket: { stream: false, maxTokens: 0, units: unitsOf({ items: 1 }) },
    reply: (usage) => `{"data":[{"index":0,"score":-2}],"usage":${usage}}`,
  },
  {
    task: "audio/transcriptions",
    ticket: { stream: false, maxTokens: 0, units: unitsOf({ audioMs: 1000 }) },
    reply: (usage) => `{"text":"Hi","usage":${usage}}`,
  },
  {
    task: "audio/speech",
    ticket: { stream: false, maxTokens: 0, units: unitsOf({ characters: 12 }) },
    reply: (usage) => `{"usage":${usage}}`,
  },
  {
    task: "images/generations",
    ticket: { stream: false, maxTokens: 0, units: unitsOf({ images: 1 }) },
    reply: (usage) => `{"data":[{"b64_json":"iVBOR"}],"usage":${usage}}`,
  },
];
const streams: readonly Task[] = [
  {
    task: "chat/completions",
    ticket: text,
    reply: (usage) => `data: {"choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":${usage}}\n\n`,
  },
  {
    task: "completions",
    ticket: text,
    reply: (usage) => `data: {"choices":[{"index":0,"text":"Hi"}],"usage":${usage}}\n\n`,
  },
];

const finish = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const html = "<!doctype html><title>It works!</title>\n\n";
const noAnswers: readonly (readonly [name: string, answer: TaskAnswer])[] = [
  ["HTML", { contentType: "text/html", pieces: [html] }],
  ["HTML as JSON", { contentType: "application/json", pieces: [html] }],
  ["status 204", { status: 204, contentType: "application/json", pieces: [] }],
  ["status 302", { status: 302, contentType: "text/html", pieces: [html], headers: { location: "/login" } }],
  ["an empty body", { contentType: "application/json", pieces: [] }],
  ["cut JSON", { contentType: "application/json", pieces: ['{"choices":[{"text":"Hi"'] }],
  ["JSON of another shape", { contentType: "application/json", pieces: ['{"detail":"try later","choices":[]}'] }],
  ["a JSON string", { contentType: "application/json", pieces: ['"Hi"'] }],
  ["HTML as event stream", { contentType: "text/event-stream", pieces: [html] }],
];
const noStreams: readonly (readonly [name: string, answer: TaskAnswer])[] = [
  ["events that are no JSON", { contentType: "text/event-stream", pieces: ["data: nonsense\n\n"] }],
  ["events of another shape", { contentType: "text/event-stream", pieces: ['data: {"ping":1}\n\ndata: [DONE]\n\n'] }],
  ["[DONE] and nothing else", { contentType: "text/event-stream", pieces: ["data: [DONE]\n\n"] }],
  ["an empty event stream", { contentType: "text/event-stream", pieces: [] }],
  ["half an event", { contentType: "text/event-stream", pieces: ['data: {"choices":[{"delta":{"cont'] }],
];
const impossible = [
  ["negative usage", '{"prompt_tokens":-3,"completion_tokens":2}'],
  ["negative output", '{"prompt_tokens":3,"completion_tokens":-2}'],
  ["fractional usage", '{"prompt_tokens":3,"completion_tokens":1.5}'],
  ["usage as text", '{"prompt_tokens":"3","completion_tokens":2}'],
  ["usage above the ticket's bounds", '{"prompt_tokens":3,"completion_tokens":2000000}'],
  ["a prompt above the ticket's bounds", '{"prompt_tokens":900719925474099,"completion_tokens":2}'],
  ["usage that is a list", "[3,2]"],
] as const;

let records = 0;
async function ask({ task, ticket }: Pick<Task, "task" | "ticket">, answer: TaskAnswer, more: Call = {}) {
  engine.answer(answer);
  const before = path.ingress.stats(instanceId).tokensTotal ?? 0;
  const reply = await openCall(path.port, { ...more, path: `/i/${instanceId}/v1/${task}`, ticket }).reply;
  records += 1;
  await expect.poll(() => path.spool.depth().records).toBe(records);
  const record = (await pendingRecords(path.spool, 500)).at(-1);
  return { reply, record, metered: (path.ingress.stats(instanceId).tokensTotal ?? 0) - before };
}

const unbilled = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  reasoningTokens: 0,
  endReason: "engine_error",
};

function expectRefused({ reply, record, metered }: Awaited<ReturnType<typeof ask>>) {
  expect([reply.status, JSON.parse(reply.text).error.code]).toEqual([502, "engine_error"]);
  expect(reply.usage).toMatchObject({ input: 0, output: 0, endReason: "engine_error" });
  expect(reply.usage?.units).toBeUndefined();
  expect(record).toMatchObject(unbilled);
  expect(record).not.toHaveProperty("audioMs");
  expect(metered).toBe(0);
}

describe.each(tasks)("a complete reply to $task", (task) => {
  it.each(noAnswers)("is a 502 and costs nothing when it is %s", async (_, answer) => {
    expectRefused(await ask(task, answer));
  });

  it.each(impossible)("is a 502 and costs nothing with %s", async (_, usage) => {
    expectRefused(await ask(task, { contentType: "application/json", pieces: [task.reply(usage)] }));
  });
});

describe("a reranker's reply", () => {
  const rerank = tasks.find(({ task }) => task === "rerank") as Task;
  it.each([
    ["lacks a document", '[{"index":0,"score":1}]'],
    ["repeats a document", '[{"index":0,"score":1},{"index":0,"score":1}]'],
    ["has a place that no document has", '[{"index":0,"score":1},{"index":4294967294,"score":1}]'],
    ["has a score that is no number", '[{"index":0,"score":1},{"index":1,"score":"high"}]'],
  ])("is a 502 and costs nothing when it %s", async (_, results) => {
    const body = `{"results":${results},"usage":{"prompt_tokens":3,"completion_tokens":0}}`;
    expectRefused(await ask(rerank, { contentType: "application/json", pieces: [body] }));
  });
});

describe.each(streams)("a streamed reply to $task", (task) => {
  it.each([...noAnswers, ...noStreams])("is a 502 and costs nothing when it is %s", async (_, answer) => {
    expectRefused(await ask(task, answer));
  });

  it.each(impossible)("is billed by its delivered tokens with %s", async (_, usage) => {
    const pieces = [task.reply("null"), task.reply(usage), finish, "data: [DONE]\n\n"];
    const { reply, record, metered } = await ask(task, { contentType: "text/event-stream", pieces });
    expect(reply.text).toContain(
      '"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"estimated_cost":0.000014}',
    );
    expect(reply.text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(reply.text).not.toContain(usage);
    expect(record).toMatchObject({ inputTokens: 10, outputTokens: 2, source: "engine_usage_rejected" });
    expect(metered).toBe(2);
  });

  it.each([
    ["ends without [DONE] and a finish reason", ""],
    ["continues with HTML", html],
    ["continues with an event that is no part of an answer", 'data: {"ping":1}\n\n'],
  ])("that %s after two tokens ends with an error and is billed for these", async (_, rest) => {
    const pieces = [task.reply("null"), task.reply("null"), rest];
    const { reply, record } = await ask(task, { contentType: "text/event-stream", pieces, pieceMs: 20 });
    const last = reply.text.trimEnd().split("\n\n").at(-1) ?? "";
    expect(JSON.parse(last.slice(6)).error.code).toBe("engine_error");
    expect(record).toMatchObject({ inputTokens: 10, outputTokens: 2, source: "counted", endReason: "engine_error" });
  });

  it("that ends after its finish reason without [DONE] is whole", async () => {
    const pieces = [task.reply("null"), finish];
    const { reply, record } = await ask(task, { contentType: "text/event-stream", pieces });
    expect(reply.text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(record).toMatchObject({ outputTokens: 1, endReason: "stop" });
  });

  it("that fails in its first event costs nothing", async () => {
    const pieces = ['data: {"error":{"message":"out of memory"}}\n\n', "data: [DONE]\n\n"];
    const { record } = await ask(task, { contentType: "text/event-stream", pieces });
    expect(record).toMatchObject(unbilled);
  });
});

describe("a streamed reply to responses", () => {
  const task = { task: "responses", ticket: text };
  const event = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
  const delta = event({ type: "response.output_text.delta", item_id: "m", delta: "Hi" });
  const end = (usage: string) =>
    `data: {"type":"response.completed","response":{"status":"completed","output":[],"usage":${ofFormats(usage)}}}\n\n`;
  const asked = (pieces: readonly string[], pieceMs = 0) =>
    ask(task, { contentType: "text/event-stream", pieces, pieceMs });

  it.each([...noAnswers, ...noStreams])("is a 502 and costs nothing when it is %s", async (_, answer) => {
    expectRefused(await ask(task, answer));
  });

  it("has the engine's usage with its cost", async () => {
    const { reply, record } = await asked([delta, delta, end('{"prompt_tokens":3,"completion_tokens":2}')]);
    expect(reply.text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(record).toMatchObject({ inputTokens: 3, outputTokens: 2, source: "engine", endReason: "stop" });
  });

  it.each(impossible)("is billed by its delivered tokens with %s", async (_, usage) => {
    const { record, metered } = await asked([delta, delta, end(usage)]);
    expect(record).toMatchObject({ inputTokens: 10, outputTokens: 2, source: "engine_usage_rejected" });
    expect(metered).toBe(2);
  });

  it.each([
    ["ends without its last event", ""],
    ["continues with HTML", html],
    ["continues with an event without a type", 'data: {"ping":1}\n\n'],
    ["continues with a chunk of a chat", 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'],
  ])("that %s after two tokens ends with an error and is billed for these", async (_, rest) => {
    const { reply, record } = await asked([delta, delta, rest], 20);
    const last = reply.text.trimEnd().split("\n\n").at(-1) ?? "";
    expect(JSON.parse(last.slice(6)).error.code).toBe("engine_error");
    expect(record).toMatchObject({ inputTokens: 10, outputTokens: 2, source: "counted", endReason: "engine_error" });
  });

  it("is stopped at the limit and the slack", async () => {
    const aborted = engine.aborted;
    const { reply, record } = await asked(
      Array.from({ length: 500 }, () => delta),
      1,
    );
    await expect.poll(() => engine.aborted).toBe(aborted + 1);
    expect(reply.text.split('"Hi"')).toHaveLength(1 + 4 + slackTokens);
    expect(reply.text).toContain('"finish_reason":"length"');
    expect(record).toMatchObject({ outputTokens: 4 });
  });

  it("is refused for messages, which may lack their input tokens", async () => {
    const start = event({ type: "message_start", message: { usage: { input_tokens: 3 } } });
    const answer = { contentType: "text/event-stream", pieces: [start] };
    expectRefused(await ask({ task: "messages", ticket: text }, answer));
  });
});

describe("an engine that ignores max_tokens", () => {
  it.each(streams)(
    "is stopped at the limit and the slack, with finish reason length, in a stream of $task",
    async (task) => {
      const pieces = Array.from({ length: 500 }, () => task.reply("null"));
      const aborted = engine.aborted;
      const { reply, record, metered } = await ask(task, { contentType: "text/event-stream", pieces, pieceMs: 1 });
      await expect.poll(() => engine.aborted).toBe(aborted + 1);
      const frames = reply.text.trimEnd().split("\n\n");
      expect(frames.filter((frame) => frame.includes('"Hi"'))).toHaveLength(4 + slackTokens);
      expect(frames.at(-1)).toBe("data: [DONE]");
      const last = JSON.parse(frames.at(-2)?.slice(6) ?? "");
      expect(last.choices).toEqual([expect.objectContaining({ index: 0, finish_reason: "length" })]);
      expect(last.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 4, estimated_cost: 0.000018 });
      expect(record).toMatchObject({ inputTokens: 10, outputTokens: 4, endReason: "stop", source: "counted" });
      expect(metered).toBeLessThanOrEqual(4 + slackTokens);
    },
  );

  it("is billed up to the limit for a complete reply within the slack, and the reply says so", async () => {
    const [task] = tasks as [Task];
    const usage = `{"prompt_tokens":3,"completion_tokens":${4 + slackTokens}}`;
    const { reply, record } = await ask(task, { contentType: "application/json", pieces: [task.reply(usage)] });
    expect(JSON.parse(reply.text).usage).toEqual({
      prompt_tokens: 3,
      completion_tokens: 4,
      total_tokens: 7,
      estimated_cost: 0.000011,
    });
    expect(record).toMatchObject({ inputTokens: 3, outputTokens: 4, source: "engine" });
  });

  it("is refused for a complete reply above the slack", async () => {
    const [task] = tasks as [Task];
    const usage = `{"prompt_tokens":3,"completion_tokens":${5 + slackTokens}}`;
    expectRefused(await ask(task, { contentType: "application/json", pieces: [task.reply(usage)] }));
  });
});

it("shows the hold as estimated_cost where the tokens cost more: nothing above it is billed", async () => {
  const [task] = tasks as [Task];
  const answer = {
    contentType: "application/json",
    pieces: [task.reply('{"prompt_tokens":30,"completion_tokens":2}')],
  };
  const { reply } = await ask({ ...task, ticket: { ...task.ticket, hold: "9000" } }, answer);
  expect(JSON.parse(reply.text).usage.estimated_cost).toBe(0.000009);
});

it.each(["audio_ms=-5", "characters=1.5", "characters=lots", "characters=2000000000"])(
  "bills the gateway's count of speech whose engine reports %s",
  async (told) => {
    const task = tasks.find((one) => one.task === "audio/speech") as Task;
    const headers = { "x-stoker-units": told };
    const { record } = await ask(task, { contentType: "audio/wav", pieces: ["RIFF", "more"], headers });
    expect(record).toMatchObject({ characters: 12, source: "engine_usage_rejected" });
  },
);

it("refuses speech without a byte", async () => {
  const task = tasks.find((one) => one.task === "audio/speech") as Task;
  expectRefused(await ask(task, { contentType: "audio/wav", pieces: [] }));
});

describe("an exception while a reply ends", () => {
  const chat = {
    contentType: "application/json",
    pieces: [tasks[0]?.reply('{"prompt_tokens":3,"completion_tokens":1}') ?? ""],
  };
  const ask = (ticket: Partial<Ticket>) =>
    openCall(path.port, { path: `/i/${instanceId}/v1/chat/completions`, ticket: { ...text, ...ticket } });
  const stream: TaskAnswer = {
    contentType: "text/event-stream",
    pieces: [streams[0]?.reply('{"prompt_tokens":3,"completion_tokens":1}') ?? "", finish, "data: [DONE]\n\n"],
  };
  /** The next `times` ends of a record throw. */
  function breakSpool(times: number): void {
    const { spool } = path;
    const end = spool.end.bind(spool);
    let left = times;
    spool.end = (row) => {
      if (left-- > 0) throw new Error("a defect");
      return end(row);
    };
  }

  it.each([
    ["whole request unbilled", chat, false, 0],
    ["stream, billed as delivered", stream, true, 1],
  ] as const)("ends a %s, at once", async (_, reply, isStream, outputTokens) => {
    engine.answer(reply);
    breakSpool(1);
    const { ticket, reply: answer } = ask({ stream: isStream });
    const { text: got } = await answer;
    expect(got).toContain("could not be processed");
    await expect
      .poll(async () => (await pendingRecords(path.spool, 500)).find((r) => r.requestId === ticket.requestId))
      .toMatchObject({ endReason: "engine_error", outputTokens });
  });

  it("cuts the connection where the request cannot be recorded either", async () => {
    engine.answer(chat);
    breakSpool(2);
    await expect(ask({ stream: false }).reply).rejects.toThrow();
    expect(path.ingress.stats(instanceId)).toMatchObject({ inFlight: 0 });
    const { text: next } = await ask({ stream: false }).reply;
    expect(next).toContain("Hi");
  });
});
