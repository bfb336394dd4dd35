// Every answer of a model that its owner takes back says so in its headers, whichever surface it came by.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { noAbout } from "../../control-plane/catalog/model-meta.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { chat, text } from "../fakes/edge.ts";
import { servedModel } from "../fakes/ports.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";

/** 2026-02-03T04:05:06.789Z, and a year later. */
const deprecatedAtMs = Date.UTC(2026, 1, 3, 4, 5, 6, 789);
const sunsetAtMs = Date.UTC(2027, 1, 3, 4, 5, 6);
const deprecation = "@1770091506";
const sunset = "Wed, 03 Feb 2027 04:05:06 GMT";

let tasks: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
});
afterAll(() => tasks.close());

const textual = { rates: servedModel().rates };
const offer = (about: object, change: object = {}) => tasks.offer({ ...change, about: { ...noAbout, ...about } });
const saidOf = ({ headers }: Response) => [headers.get("deprecation"), headers.get("sunset")];

const choice = { index: 0, text: " a", message: { role: "assistant", content: "a" }, finish_reason: "stop" };
const whole = { choices: [choice], usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 } };
const frames = [`data: ${JSON.stringify({ ...whole, choices: [{ ...choice, delta: {} }] })}\n\n`, "data: [DONE]\n\n"];
const vectors = { data: [{ index: 0, embedding: [1] }], usage: { prompt_tokens: 3, total_tokens: 3 } };
const picture = { created: 1, data: [{ b64_json: "AAAA" }] };
const heard = { text: "Hi", duration: 1 };

interface Ask {
  readonly path: string;
  readonly body: object;
  readonly answer: object | readonly string[];
  readonly model?: object;
}
const asks: readonly Ask[] = [
  { path: "/v1/completions", body: text(), answer: whole, model: textual },
  { path: "/v1/completions", body: text({ stream: true }), answer: frames, model: textual },
  { path: "/v1/compat/chat/completions", body: chat(), answer: whole, model: textual },
  { path: "/v1/openai/chat/completions", body: chat({ stream: true }), answer: frames, model: textual },
  { path: "/v1/inference/org/model", body: { input: "x" }, answer: whole, model: textual },
  { path: "/v1/inference/org/model", body: { input: "x", stream: true }, answer: frames, model: textual },
  { path: "/v1/embeddings", body: { model: "org/model", input: "x" }, answer: vectors },
  { path: "/v1/inference/org/model", body: { inputs: ["x"] }, answer: vectors, model: { task: "embeddings" } },
  { path: "/v1/images/generations", body: { model: "org/model", prompt: "x" }, answer: picture },
  { path: "/v1/audio/speech", body: { model: "org/model", input: "x" }, answer: ["RIFF"] },
  { path: "/v1/text-to-speech/af_bella/stream", body: { text: "x", model_id: "org/model" }, answer: ["RIFF"] },
];

const send = ({ path, body, answer, model }: Ask) => {
  offer({ deprecatedAtMs, sunsetAtMs }, model);
  if (Array.isArray(answer))
    tasks.engine.answer({
      contentType: answer === frames ? "text/event-stream" : "audio/wav",
      pieces: answer as readonly string[],
    });
  else tasks.json(answer);
  return tasks.edge.post(path, body);
};

describe("an answer of a model that is deprecated", () => {
  it.each(asks.map((ask) => [`${ask.path} ${JSON.stringify(ask.body)}`, ask] as const))(
    "says since when, and when it will be gone: POST %s",
    async (_name, ask) => {
      const answer = await send(ask);
      const body = await answer.text();
      expect(answer.status, body).toBe(200);
      expect(saidOf(answer)).toEqual([deprecation, sunset]);
    },
  );

  it("says it of forms too", async () => {
    offer({ deprecatedAtMs, sunsetAtMs });
    tasks.json(heard);
    const sound = { file: new Blob([wav(1)]), model: "org/model" };
    const answer = await tasks.send("/v1/audio/transcriptions", form(sound, { file: "a.wav" }));
    expect([answer.status, ...saidOf(answer)]).toEqual([200, deprecation, sunset]);
  });
});

describe("headers", () => {
  beforeEach(() => tasks.json(whole));
  const asked = () => tasks.edge.post("/v1/completions", text());

  it("say no more than the owner said", async () => {
    offer({ deprecatedAtMs }, textual);
    expect(saidOf(await asked())).toEqual([deprecation, null]);
    offer({ sunsetAtMs }, textual);
    expect(saidOf(await asked())).toEqual([null, sunset]);
    offer({ replacedBy: "org/next" }, textual);
    expect(saidOf(await asked())).toEqual([null, null]);
    tasks.offer(textual);
    expect(saidOf(await asked())).toEqual([null, null]);
  });

  it("stand on a queued answer and on a refusal of that model as well", async () => {
    offer({ deprecatedAtMs, sunsetAtMs }, textual);
    const webhook = "https://example.com/hook";
    const queued = await tasks.edge.post("/v1/inference/org/model", { input: "x", webhook });
    expect([queued.status, ...saidOf(queued)], await queued.text()).toEqual([200, deprecation, sunset]);
    const { hold } = tasks.edge.budgets;
    tasks.edge.budgets.hold = () => Promise.reject(new DatabaseUnavailable("unreachable"));
    const refused = await asked();
    tasks.edge.budgets.hold = hold;
    expect([refused.status, ...saidOf(refused)]).toEqual([503, deprecation, sunset]);
  });

  it("are those of the model that answered, where another one took over", async () => {
    offer({ deprecatedAtMs, sunsetAtMs }, { ...textual, name: "org/old" });
    tasks.edge.models.models = [
      ...tasks.edge.models.models,
      servedModel({ name: "org/model", servedName: "as-served" }),
    ];
    const answer = await tasks.edge.post("/v1/completions", text({ model: "org/gone", models: ["org/model"] }));
    expect([answer.status, ...saidOf(answer)]).toEqual([200, null, null]);
    const old = await tasks.edge.post("/v1/completions", text({ model: "org/gone", models: ["org/old"] }));
    expect([old.status, ...saidOf(old)]).toEqual([200, deprecation, sunset]);
  });
});
