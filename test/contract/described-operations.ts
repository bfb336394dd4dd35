// Operations of docs/openapi.json, which `npm run generate` writes and open-api.test.ts compares with the routes.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly operation: {
    readonly tags?: readonly string[];
    readonly parameters?: readonly {
      readonly name: string;
      readonly in: string;
      readonly required?: boolean;
      readonly schema?: { readonly enum?: readonly unknown[] };
    }[];
    readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
    readonly responses: Readonly<Record<string, unknown>>;
  };
}

export function describedOperations(): readonly Operation[] {
  const { paths } = JSON.parse(readFileSync(join(import.meta.dirname, "../../docs/openapi.json"), "utf8")) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation["operation"]>>>>;
  };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}
