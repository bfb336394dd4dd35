// A thread that cuts pictures into the tiles that a model reads: resizing in floats takes a second for a large one.
import { workerData } from "node:worker_threads";
import { AutoImageProcessor, env, RawImage } from "@huggingface/transformers";
import { serveCalls } from "../threads/thread-calls.ts";
import { decodePicture } from "./image-processor.ts";
import type { TensorValue } from "./session.ts";

/** A picture in the form of the model's input: parts of one size, row by row, and the whole picture last. */
export interface Tiles {
  /** [1, tiles, 3, height, width] */
  readonly pixels: TensorValue;
  /** 0 by 0: the picture was not cut. */
  readonly rows: number;
  readonly columns: number;
}

export type TileFunctions = typeof functions;

env.allowRemoteModels = false;
// The warnings of a library are no log lines of this server.
env.logLevel = 40;

type Process = (images: RawImage[][], options: object) => Promise<Record<string, unknown>>;
let process: Process;

const functions = {
  async open(): Promise<void> {
    const processor = await AutoImageProcessor.from_pretrained(workerData as string, { local_files_only: true });
    process = processor as unknown as Process;
  },

  /** `isCoarse`: only the whole picture, not its parts. Throws PictureError. */
  async tiles(bytes: Uint8Array, isCoarse: boolean): Promise<Tiles> {
    const { data, width, height } = await decodePicture(Buffer.from(bytes));
    const made = await process([[new RawImage(data, width, height, 3)]], {
      return_row_col_info: true,
      ...(isCoarse ? { do_image_splitting: false } : {}),
    });
    const { type, data: values, dims } = made["pixel_values"] as TensorValue;
    const first = (lists: unknown) => (lists as number[][] | undefined)?.[0]?.[0] ?? 0;
    return {
      pixels: { type, data: values, dims: [...dims] },
      rows: first(made["rows"]),
      columns: first(made["cols"]),
    };
  },
};

serveCalls(functions);
