import { pricedPixels, type UnitRates } from "../../../../proto/money.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { exactly, type TaskUnits } from "../../../inference/task.ts";
import { type FormFile, writeForm } from "../../body/form-body.ts";
import { bytesPerToken, jsonBody } from "./json-task.ts";

export interface ImageParams {
  readonly model: string;
  readonly n: number;
  readonly width: number;
  readonly height: number;
  /** Undefined: the number that the model's price refers to, otherwise the engine's own. */
  readonly steps?: number | null | undefined;
  /** Text of the picture. */
  readonly prompt?: string | undefined;
  /** Further fields for the engine. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface ImageFiles {
  readonly path: "/v1/images/edits" | "/v1/images/variations";
  readonly images: readonly FormFile[];
  readonly mask?: FormFile | undefined;
}

/** With `files`: an edit or a variation of them. */
export function images(request: ImageParams, files?: ImageFiles): Completion {
  const { n, width, height, prompt = "" } = request;
  const fields = {
    ...request.fields,
    prompt: prompt || undefined,
    n,
    size: `${width}x${height}`,
    response_format: "b64_json",
  };
  const promptBytes = Buffer.byteLength(prompt);
  return taskCompletion("image_generation", request.model, {
    enginePath: files?.path ?? "/v1/images/generations",
    inputTokensBound: promptBytes,
    inputTokensEstimate: Math.ceil(promptBytes / bytesPerToken),
    units: (rates) => unitsOf(request, rates),
    body: files
      ? (model) =>
          writeForm([
            ["model", model],
            ...Object.entries(fields),
            ...files.images.map((image) => ["image", image] as const),
            ["mask", files.mask],
          ])
      : jsonBody(fields),
  });
}

function unitsOf({ n, width, height, steps }: ImageParams, rates: UnitRates | undefined): TaskUnits {
  const pricedSteps = Number((rates?.imageUnit ?? 0n) / BigInt(pricedPixels));
  // 0 where only the engine knows the steps: then they are not priced, and its figure is taken as it is.
  return exactly({ images: n, imagePixelSteps: n * width * height * (steps ?? pricedSteps) });
}

/** Parses `1024x768`, which the schema has validated. */
export function sizeFrom(size: string | null | undefined): { readonly width: number; readonly height: number } {
  const [width = 1024, height = 1024] = (size ?? "1024x1024").split("x").map(Number);
  return { width, height };
}
