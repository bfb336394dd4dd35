// Every command and program of the guides, run as it stands against a running installation with small real models.
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openApi, ownApi } from "../../../scripts/supervisor/api.ts";
import { deployModel } from "../../../scripts/supervisor/deploy-model.ts";
import { firstModelOf } from "../../../scripts/supervisor/first-models.ts";
import { cachedModel } from "../../fakes/cached-models.ts";
import { type FakeHub, startHub } from "../../fakes/hub.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { hasModule } from "../../fakes/python.ts";
import { sharedModel } from "../../fakes/shared-models.ts";
import { hasCurl } from "../../fakes/shell-line.ts";
import { deploySmolLM, hasRealModel } from "../spine/model.ts";
import { blocksOf, openGuideShell, readGuide, tellSkipped } from "./guide-blocks.ts";

const root = join(import.meta.dirname, "../../..");
const promise = "the commands of the guides run as they stand";
const guides = ["README.md", ...globSync("docs/guides/*.md", { cwd: root }).sort()];
/** It loads three more models. */
const withSpeech = "docs/guides/images-and-speech.md";
/** Those that take most of the time. */
const byNight = [
  withSpeech,
  ...["batches", "browsers", "deploy-a-model", "lora"].map((name) => `docs/guides/${name}.md`),
];
const run = guides.filter((name) => isNightly || !byNight.includes(name));
if (!isNightly) console.warn(`NOT PROVEN here: ${promise}: ${byNight.join(", ")}. npm run test:nightly does.`);
const adapter = sharedModel("smollm2-pirate-lora", promise);
/** By key of the demo model: its folder. */
const spoken = {
  "digits-diffusion": sharedModel("digits-diffusion", promise),
  "piper-joe": cachedModel("piper-joe", promise),
  "whisper-tiny.en": sharedModel("whisper-tiny.en", promise),
};
/** Of a start of the installation, and of a guide: they load models. */
const limitMs = 600_000;
const canRun = hasCurl && hasRealModel(promise) && adapter !== undefined && Object.values(spoken).every(Boolean);

it("has a guide for each subject, and says why a block cannot run", () => {
  expect(guides.length).toBeGreaterThanOrEqual(10);
  const blocks = guides.flatMap((name) => blocksOf(readGuide(name)));
  for (const name of guides) tellSkipped(name, blocksOf(readGuide(name)));
  const skipped = blocks.filter(({ skip }) => skip);
  process.stderr.write(`\n${blocks.length - skipped.length} blocks of the guides run, ${skipped.length} do not\n`);
  expect(skipped.length).toBeLessThan(blocks.length / 3);
});

describe.runIf(canRun)("a guide", () => {
  let stack: Stack;
  let hub: FakeHub;
  let parent: string;
  let hasOpenAi: boolean;
  beforeAll(async () => {
    parent = mkdtempSync(join(tmpdir(), "stoker-guides-"));
    // TypeScript of the guides imports packages that this repository has.
    symlinkSync(join(root, "node_modules"), join(parent, "node_modules"));
    const models = join(parent, "models");
    mkdirSync(models);
    for (const [key, folder] of Object.entries(spoken)) if (folder) symlinkSync(folder, join(models, key));
    const files = ["adapter_config.json", "adapter_model.safetensors"].map(
      (file) => [file, readFileSync(join(adapter ?? "", file))] as const,
    );
    hub = await startHub({ repo: "ada/smollm2-pirate-lora", files: Object.fromEntries(files) });
    stack = await startStack({
      agents: 1,
      controlPlaneEnv: { HF_ENDPOINT: hub.url, STOKER_DEMO_MODELS: models },
      agentEnv: { HF_ENDPOINT: hub.url },
    });
    await deploySmolLM(stack, 4);
    hasOpenAi = await hasModule("openai");
    if (!hasOpenAi) process.stderr.write(`\nNOT PROVEN: Python of the guides: pip install openai\n`);
  }, limitMs);
  afterAll(async () => {
    await stack?.stop();
    await hub?.close();
    if (parent) rmSync(parent, { recursive: true, force: true });
  });

  const serve = async (key: string) => {
    const model = firstModelOf(key);
    if (!model) throw new Error(`no model ${key}`);
    const api = openApi(ownApi(undefined), stack.url, join(stack.folder, "admin.key"), AbortSignal.timeout(240_000));
    await deployModel(api, model, { note() {}, bytes() {}, done() {}, drop() {} }, AbortSignal.timeout(240_000));
  };

  it.each(run)(
    "works as it stands: %s",
    async (name) => {
      if (name === withSpeech) for (const key of Object.keys(spoken)) await serve(key);
      const shell = openGuideShell(parent, { STOKER_HOST: stack.url, STOKER_API_KEY: stack.apiKey });
      let count = 0;
      for (const block of blocksOf(readGuide(name))) {
        if (block.skip || (block.language === "python" && block.code.includes("openai") && !hasOpenAi)) continue;
        const { code, out } = await shell.run(block);
        expect(code, `${name}:${block.line}\n${block.code}\n${out}`).toBe(0);
        count += 1;
      }
      expect(count).toBeGreaterThan(0);
    },
    limitMs,
  );
});
