// Parses a request for pictures, in JSON or as a form.
import { type Body, Fields } from "../../server/fields.ts";
import { invalid, unusable } from "../../server/request-error.ts";
import { wholeSeed } from "../../server/sampling-fields.ts";
import { type PictureFormat, pictureFormats } from "./picture-file.ts";

export interface ImageAsk {
  readonly prompt: string;
  readonly negative: string;
  readonly n: number;
  /** Undefined: what the model makes best. */
  readonly size: { readonly width: number; readonly height: number } | undefined;
  /** Undefined: any. */
  readonly seed: number | undefined;
  readonly steps: number;
  readonly guidance: number;
  /** Share of a given picture that is painted over, above 0 to 1; undefined: the default of the operation. */
  readonly strength: number | undefined;
  readonly format: PictureFormat;
}

export interface ImageDefaults {
  readonly steps: number;
  readonly guidance: number;
  readonly maxSteps: number;
}

const maxPictures = 4;
const maxGuidance = 100;
/** Forms carry everything as text. */
const numeric = ["n", "seed", "num_inference_steps", "guidance_scale", "strength"];

/** `needsPrompt`: false for variations. Throws RequestError. */
export function readImageAsk(body: Body, defaults: ImageDefaults, needsPrompt: boolean): ImageAsk {
  const fields = new Fields(body);
  const prompt = fields.string("prompt");
  if (needsPrompt && prompt === undefined) throw invalid("prompt", "prompt is required: what is to be painted");
  const form = fields.string("response_format") ?? "b64_json";
  if (form !== "b64_json")
    throw invalid("response_format", `response_format must be b64_json: pictures are sent in the answer and not kept`);
  const steps = fields.integer("num_inference_steps", { min: 1 }) ?? defaults.steps;
  if (steps > defaults.maxSteps)
    throw unusable("num_inference_steps", `this model takes at most ${defaults.maxSteps} steps, not ${steps}`);
  return {
    prompt: prompt ?? "",
    negative: fields.string("negative_prompt") ?? "",
    n: fields.integer("n", { min: 1, max: maxPictures }) ?? 1,
    size: readSize(fields.string("size")),
    seed: readSeed(fields.raw("seed")),
    steps,
    guidance: fields.number("guidance_scale", { min: 0, max: maxGuidance }) ?? defaults.guidance,
    strength: fields.number("strength", { min: 0, max: 1, exclusiveMin: true }),
    format: fields.oneOf("output_format", pictureFormats) ?? "png",
  };
}

/** Converts a form's text to its JSON value; text that is not a number stays text and is refused. */
export function numbersOf(form: Body): Body {
  const read = (name: string, value: unknown) =>
    numeric.includes(name) && typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value))
      ? Number(value)
      : value;
  return Object.fromEntries(Object.entries(form).map(([name, value]) => [name, read(name, value)]));
}

/** The low 32 bits of a seed that noise cannot be drawn by. */
function readSeed(value: unknown): number | undefined {
  const whole = wholeSeed(value);
  if (whole === undefined) return undefined;
  return Number.isSafeInteger(value) && whole >= 0n ? Number(value) : Number(BigInt.asUintN(32, whole));
}

function readSize(text: string | undefined): ImageAsk["size"] {
  if (text === undefined || text === "auto") return undefined;
  const [, width, height] = /^([1-9]\d{0,4})x([1-9]\d{0,4})$/.exec(text) ?? [];
  if (width === undefined || height === undefined)
    throw invalid("size", `size must be WIDTHxHEIGHT in pixels, e.g. 512x512, not ${text.slice(0, 40)}`);
  return { width: Number(width), height: Number(height) };
}
