// A thread that cuts pictures into the tiles that a model reads: resizing in floats takes a second for a large one.
import { parentPort, workerData } from "node:worker_threads";
import { AutoImageProcessor, env, RawImage } from "@huggingface/transformers";
import { decodePicture, PictureError } from "./image-processor.ts";
import type { TensorValue } from "./session.ts";
import type { TileAnswer, TileQuestion, Tiles } from "./tile-messages.ts";

const port = parentPort;
if (!port) throw new Error("tile-thread.ts runs as a worker thread");
env.allowRemoteModels = false;
// The warnings of a library are no log lines of this server.
env.logLevel = 40;

type Process = (images: RawImage[][], options: object) => Promise<Record<string, unknown>>;
const processor = AutoImageProcessor.from_pretrained(workerData as string, { local_files_only: true });
processor.then(
  () => send({ id: 0, tiles: undefined }),
  (error: unknown) => send({ id: 0, failure: (error as Error).message, isPicture: false }),
);

let turn: Promise<void> = Promise.resolve();
port.on("message", (question: TileQuestion) => {
  turn = turn.then(() => answer(question));
});

async function answer({ id, bytes, isCoarse }: TileQuestion): Promise<void> {
  try {
    const { data, width, height } = await decodePicture(Buffer.from(bytes));
    const process = (await processor) as unknown as Process;
    const made = await process([[new RawImage(data, width, height, 3)]], {
      return_row_col_info: true,
      ...(isCoarse ? { do_image_splitting: false } : {}),
    });
    const { type, data: values, dims } = made["pixel_values"] as TensorValue;
    const first = (lists: unknown) => (lists as number[][] | undefined)?.[0]?.[0] ?? 0;
    const tiles: Tiles = {
      pixels: { type, data: values, dims: [...dims] },
      rows: first(made["rows"]),
      columns: first(made["cols"]),
    };
    send({ id, tiles });
  } catch (error) {
    send({ id, failure: (error as Error).message, isPicture: error instanceof PictureError });
  }
}

function send(message: TileAnswer): void {
  port?.postMessage(message);
}
