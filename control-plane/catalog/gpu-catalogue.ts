// An operator's GPU types, besides those of proto/gpu-types.json.
import { readFile } from "node:fs/promises";
import { Type } from "typebox";
import { Value } from "typebox/value";
import { addGpuTypes, type GpuTypeEntry } from "../../proto/gpu.ts";
import { type GpuVendor, gpuVendors } from "../../proto/gpu-vendors.ts";

const GpuTypesFile = Type.Object({
  types: Type.Array(
    Type.Object(
      {
        name: Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
        vendor: Type.Unsafe<GpuVendor>({ type: "string", enum: [...gpuVendors] }),
        memory_gb: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 100_000 })),
        marks: Type.Array(Type.String({ minLength: 2, maxLength: 100 }), { minItems: 1, maxItems: 100 }),
      },
      { additionalProperties: false },
    ),
    { maxItems: 1_000 },
  ),
});

/**
 * Reads the operator's file of types and adds them. Undefined: none. Returns a function that removes them. Throws with what is wrong:
 * without its types, deployments and prices that name them would be refused.
 */
export async function openGpuCatalogue(file: string | undefined): Promise<() => void> {
  if (file === undefined) return () => {};
  try {
    return addGpuTypes(readGpuTypes(await readFile(file, "utf8")));
  } catch (error) {
    throw new Error(`STOKER_GPU_TYPES: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** Throws with the position of the first error. */
export function readGpuTypes(text: string): readonly GpuTypeEntry[] {
  const value: unknown = JSON.parse(text);
  if (Value.Check(GpuTypesFile, value)) return value.types as readonly GpuTypeEntry[];
  const [first] = Value.Errors(GpuTypesFile, value);
  throw new Error(`${first?.instancePath || "/"} ${first?.message ?? "is invalid"}`);
}
