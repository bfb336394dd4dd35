// Pictures on the wire, in OpenAI's form: POST /v1/images/generations, /v1/images/edits and /v1/images/variations.

import { randomInt } from "node:crypto";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { unitFields } from "../../../proto/usage.ts";
import type { TaskCall, TaskRoute } from "../../server/engine.ts";
import { type Body, Fields } from "../../server/fields.ts";
import { readBody } from "../../server/read-body.ts";
import { readForm } from "../../server/read-form.ts";
import { invalid, unusable } from "../../server/request-error.ts";
import { servedModel } from "../../server/served-model.ts";
import { writeText } from "../../server/write-json.ts";
import { pictureBytes } from "../image-input.ts";
import { givenPicture } from "./given-picture.ts";
import type { Commission, Painter } from "./painter.ts";
import { encodePicture } from "./picture-file.ts";
import { type ImageAsk, type ImageDefaults, numbersOf, readImageAsk } from "./request.ts";
import { checkSize } from "./sizes.ts";

type Defaults = Pick<ImageDefaults, "steps" | "guidance">;

interface Given {
  readonly image: Buffer;
  readonly mask: Buffer | undefined;
  /** Strength of a request that has none. */
  readonly strength: number;
}

/**
 * A whole picture that is changed stays recognisable; a part that is painted again starts from nothing; of what is varied, more
 * noise than this would leave another subject.
 */
const usualStrength = 0.8;
const maskedStrength = 1;
const variedStrength = 0.4;
const seeds = 2 ** 32;

/** `adapters`: those that are loaded now. */
export function imageRoutes(
  painter: Painter,
  usual: Defaults,
  adapters: () => readonly string[],
): ReadonlyMap<string, TaskRoute> {
  const defaults = { ...usual, maxSteps: painter.maxSteps };
  const readAsk = (body: Body, needsPrompt = true) => readImageAsk(body, defaults, needsPrompt);
  const route = (
    read: (call: TaskCall) => Promise<readonly [body: Body, ask: ImageAsk, given: Given | undefined]>,
  ): TaskRoute => ({
    operation: "image_generation",
    async run(call) {
      const [body, ask, given] = await read(call);
      const { model, formerAdapters: former } = call;
      const { adapter } = servedModel(body["model"], { model, adapters: adapters(), former });
      await answer(painter, call, { ...ask, adapter }, given);
    },
  });
  const generations = route(async ({ request }) => {
    const body = await readBody(request);
    return [body, readAsk(body), givenIn(body)];
  });
  const edits = route(async (call) => {
    const { body, image, mask } = await readPictureForm(call);
    return [body, readAsk(body), { image, mask, strength: mask === undefined ? usualStrength : maskedStrength }];
  });
  const variations = route(async (call) => {
    const { body, image, mask } = await readPictureForm(call);
    if (mask) throw unusable("mask", "a variation takes no mask; send it to /v1/images/edits");
    // Without a text there is nothing that the picture could be led towards.
    const ask = { ...readAsk(body, false), prompt: "", negative: "", guidance: 1 };
    return [body, ask, { image, mask: undefined, strength: variedStrength }];
  });
  return new Map([
    ["/v1/images/generations", generations],
    ["/v1/images/edits", edits],
    ["/v1/images/variations", variations],
  ]);
}

async function answer(
  painter: Painter,
  call: TaskCall,
  ask: ImageAsk & Pick<Commission, "adapter">,
  given: Given | undefined,
): Promise<void> {
  if (given && !painter.takesPictures)
    throw unusable("image", "this model's export has no vae_encoder, so it takes no pictures; send a prompt alone");
  const size = ask.size ?? { width: painter.sizes.width, height: painter.sizes.height };
  checkSize(painter.sizes, size.width, size.height, "size");
  const seed = ask.seed ?? randomInt(seeds);
  const picture = given && (await givenPicture(given.image, given.mask, size));
  const isMasked = picture?.repainted !== undefined;
  const strength = ask.strength ?? (isMasked ? maskedStrength : (given?.strength ?? 1));
  const painted = await painter.paint({ ...ask, size, seed, given: picture && { ...picture, strength } }, call);
  call.onFirstToken();
  const data: { readonly b64_json: string; readonly revised_prompt: null; readonly url: null }[] = [];
  for (const rgb of painted) {
    const picture = await encodePicture(rgb, size.width, size.height, ask.format);
    data.push({ b64_json: picture.toString("base64"), revised_prompt: null, url: null });
  }
  if (call.signal.aborted) return;
  const { inputTokens, units = {} } = call.usage;
  const usage = { prompt_tokens: inputTokens, total_tokens: inputTokens, ...unitFields(units) };
  const body = { created: unixSeconds(Date.now()), data, output_format: ask.format, seed, usage };
  writeText(call.response, 200, JSON.stringify(body));
}

/** The picture of a JSON body, and its mask. */
function givenIn(body: Body): Given | undefined {
  const fields = new Fields(body);
  if (fields.raw("image") === undefined) {
    if (fields.raw("mask") !== undefined) throw invalid("mask", "a mask is of an image: send that as well");
    return undefined;
  }
  const mask = fields.raw("mask") === undefined ? undefined : pictureBytes(fields, "mask");
  return { image: pictureBytes(fields, "image"), mask, strength: usualStrength };
}

async function readPictureForm({ request }: TaskCall) {
  const { fields, files } = await readForm(request);
  const named = (name: string) => files.filter((file) => file.name === name || file.name === `${name}[]`);
  const [image, ...more] = named("image");
  if (!image) throw invalid("image", "image is required: a picture, as a part with a file name");
  if (more.length > 0) throw unusable("image", "this model changes one picture at a time; send one image");
  return { body: numbersOf(fields), image: image.bytes, mask: named("mask")[0]?.bytes };
}
