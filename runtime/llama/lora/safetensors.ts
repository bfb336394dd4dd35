// Reads a safetensors file: eight bytes of header length, a JSON header, then the tensors' bytes. Pure.
// Format: https://github.com/huggingface/safetensors#format
import { objectIn } from "../../server/fields.ts";
import { AdapterRefusal } from "./adapter-refusal.ts";

export type FloatType = "F32" | "F16" | "BF16";

export interface FloatTensor {
  readonly name: string;
  readonly type: FloatType;
  /** Slowest dimension first. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

const widths: Readonly<Record<FloatType, number>> = { F32: 4, F16: 2, BF16: 2 };
/** Some 50,000 tensors. The format allows 100 MB, which takes minutes and gigabytes to parse when it is made to. */
const maxHeaderBytes = 8 * 1024 ** 2;

/** Throws AdapterRefusal. */
export function readSafetensors(file: Uint8Array): readonly FloatTensor[] {
  if (file.byteLength < 8) throw broken("it is shorter than its header length");
  const length = Number(new DataView(file.buffer, file.byteOffset, 8).getBigUint64(0, true));
  if (8 + length > file.byteLength) throw broken("its header is longer than the file");
  if (length > maxHeaderBytes) throw broken(`its header has ${length} bytes, and at most ${maxHeaderBytes} are read`);
  const header = objectIn(new TextDecoder().decode(file.subarray(8, 8 + length)));
  if (!header) throw broken("its header is no JSON object");
  const data = file.subarray(8 + length);
  return Object.entries(header)
    .filter(([name]) => name !== "__metadata__")
    .map(([name, entry]) => tensorOf(name, entry, data));
}

function tensorOf(name: string, entry: unknown, data: Uint8Array): FloatTensor {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  if (!isFloatType(dtype))
    throw broken(
      `tensor ${name.slice(0, 200)} has type ${typeof dtype === "string" ? dtype.slice(0, 40) : "unknown"}; F32, F16 and BF16 are read`,
    );
  const isCounts = (list: unknown): list is number[] =>
    Array.isArray(list) && list.every((n) => Number.isSafeInteger(n) && n >= 0);
  if (!isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) throw broken(`tensor ${name} has no place`);
  const [from, to] = offsets as [number, number];
  const size = shape.reduce((product, n) => product * n, widths[dtype]);
  if (to > data.byteLength || to - from !== size) throw broken(`tensor ${name} does not fill its place`);
  return { name, type: dtype, shape, bytes: data.subarray(from, to) };
}

const isFloatType = (type: unknown): type is FloatType => typeof type === "string" && Object.hasOwn(widths, type);

const broken = (why: string) => new AdapterRefusal(`adapter_model.safetensors is damaged: ${why}`);
