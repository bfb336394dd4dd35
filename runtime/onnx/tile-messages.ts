// Messages between the server and the thread that prepares pictures. Only types.
import type { TensorValue } from "./session.ts";

/** A picture in the form of the model's input: parts of one size, row by row, and the whole picture last. */
export interface Tiles {
  /** [1, tiles, 3, height, width] */
  readonly pixels: TensorValue;
  /** 0 by 0: the picture was not cut. */
  readonly rows: number;
  readonly columns: number;
}

export interface TileQuestion {
  readonly id: number;
  readonly bytes: Uint8Array;
  /** The whole picture alone, not its parts. */
  readonly isCoarse: boolean;
}

/** The first answer has id 0: the thread is ready. */
export type TileAnswer =
  | { readonly id: number; readonly tiles: Tiles | undefined }
  | { readonly id: number; readonly failure: string; readonly isPicture: boolean };
