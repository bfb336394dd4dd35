// The lines of the demo models' records, run by a shell as they stand, with the real model behind the gateway. Those of the
// models for text and for vectors run under whole stacks in test/e2e/spine.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { demoModelByKey, demoModels } from "../../../control-plane/catalog/demo-models.ts";
import { cachedModel } from "../../fakes/cached-models.ts";
import { apiKey } from "../../fakes/ports.ts";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { sharedModel } from "../../fakes/shared-models.ts";
import { hasCurl, recordOf, runLine } from "../../fakes/shell-line.ts";
import { startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";

const spoken = /"audio":\s*"data:audio\/wav;base64,/;
/** By key: where its folder is, what shows in its answer. */
const models: readonly (readonly [string, typeof cachedModel, RegExp])[] = [
  ["piper-joe", cachedModel, spoken],
  ["kokoro-82m", cachedModel, spoken],
  // A second of silence: what is heard in it is the model's to say.
  ["whisper-tiny.en", sharedModel, /"duration":\s*1[,}]/],
  ["digits-diffusion", sharedModel, /"images":\s*\[\s*"data:image\/png;base64,/],
];
const elsewhere = ["smollm2-135m", "all-minilm-l6-v2"];

it("is every demo model that there is, with those of test/e2e/spine", () => {
  expect([...models.map(([key]) => key), ...elsewhere].sort()).toEqual(demoModels.map(({ key }) => key).sort());
});

describe.each(models)("the demo model %s", (key, find, shown) => {
  const folder = find(key, `the lines of ${key}'s record run as they stand`);
  const demo = demoModelByKey(key);
  let served: ServedModel;
  let tasks: TaskEdge;
  beforeAll(async () => {
    if (folder === undefined || demo === undefined) return;
    served = await serveModel(folder);
    tasks = await startTaskEdge(served.origin);
    tasks.offer({ name: demo.modelName, task: demo.task, servedName: "o/m", rates: demo.rates });
  });
  afterAll(async () => {
    await tasks?.close();
    await served?.close();
  });

  it.runIf(folder && hasCurl)("is called by its curl line and by its command line as they stand", async () => {
    const server = { url: tasks.edge.url, apiKey };
    const { curl_inv, cmdline_inv } = await recordOf(server, demo?.modelName ?? "");
    const curl = await runLine(curl_inv, server);
    expect(curl.code, curl.err).toBe(0);
    expect(curl.out).toMatch(shown);
    expect(curl.out).toContain('"status":"succeeded"');
    const command = await runLine(`${cmdline_inv} --json`, server);
    expect(command.code, command.err).toBe(0);
    expect(command.out).toMatch(shown);
  });
});
