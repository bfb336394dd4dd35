import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { whyImageAdapterRefused } from "../../../../agent/adapters/check-adapter.ts";
import { type AdapterNames, imageAdapter, peftConfig } from "../../../fakes/image-adapter.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-image-adapter-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function why(bytes: Buffer, config?: object, maxRank = 256): Promise<string | undefined> {
  const path = join(folder, "adapter.safetensors");
  writeFileSync(path, bytes);
  return whyImageAdapterRefused(path, config && JSON.stringify(config), maxRank);
}

function withHeader(header: unknown, data = 8): Buffer {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, Buffer.alloc(data)]);
}
const half = (shape: unknown, dtype = "F16", to = 8) => ({ dtype, shape, data_offsets: [0, to] });

it.each<AdapterNames>(["kohya", "diffusers", "peft"])(
  "nothing speaks against a LoRA in the names of %s",
  async (names) => {
    expect(await why(imageAdapter(names), names === "peft" ? peftConfig : undefined)).toBeUndefined();
  },
);

it("accepts diffusers' older names, with a tool's own metadata", async () => {
  const name = "unet.mid_block.attentions.0.processor.to_q_lora.down.weight";
  expect(await why(withHeader({ __metadata__: { format: "pt" }, [name]: half([4, 1]) }))).toBeUndefined();
});

it.each([
  ["a pickle", Buffer.from("\x80\x02}q\x00.pickle of something longer"), /no safetensors file/],
  ["nothing", Buffer.alloc(0), /no safetensors file/],
  ["a page of text", Buffer.from(`<!doctype html>${" ".repeat(400)}`), /no safetensors file/],
  ["a header that is no object", withHeader([1]), /no safetensors file/],
  ["a damaged header", withHeader({ "a.lora_down.weight": { dtype: "F16" } }), /header is damaged/],
  [
    "a file that was cut",
    withHeader({ "a.lora_down.weight": half([4, 1], "F16", 800) }),
    /ends before its last tensor/,
  ],
  ["whole numbers", withHeader({ "a.lora_down.weight": half([4, 1], "I8") }), /of type I8/],
  ["a rank too high", withHeader({ "a.lora_down.weight": half([512, 1]) }), /rank 512/],
  [
    "a whole model beside a LoRA",
    withHeader({ "a.lora_down.weight": half([4, 1]), "a.weight": half([4, 1]) }),
    /"a\.weight", which is no part/,
  ],
  ["a header of megabytes", withHeader({ __metadata__: { notes: "x".repeat(2 ** 21) } }), /header has \d+ bytes/],
  ["another kind of adapter", withHeader({ "a.hada_w1_a": half([4, 1]) }), /holds no LoRA/],
])("%s is refused with a sentence", async (_, bytes, sentence) => {
  expect(await why(bytes)).toMatch(sentence);
});

it("refuses a DoRA or an adapter of another type by its configuration", async () => {
  expect(await why(imageAdapter("peft"), { ...peftConfig, use_dora: true })).toMatch(/DoRA/);
  expect(await why(imageAdapter("peft"), { peft_type: "LOHA" })).toMatch(/"LOHA" and not LORA/);
});
