// The parts of CycloneDX 1.5 that Stoker's bills of materials use (https://cyclonedx.org/docs/1.5/json/).
import { createHash } from "node:crypto";

export interface Component {
  readonly type: "application" | "container" | "file" | "library" | "operating-system";
  readonly name: string;
  readonly version?: string;
  readonly "bom-ref"?: string;
  readonly purl?: string;
  readonly hashes?: readonly { readonly alg: "SHA-256" | "SHA-512"; readonly content: string }[];
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
  readonly components?: readonly Component[];
}

interface Dependency {
  readonly ref: string;
  readonly dependsOn?: readonly string[];
}

export interface Bom {
  readonly bomFormat: "CycloneDX";
  readonly specVersion: string;
  readonly metadata: { readonly component: Component; readonly [more: string]: unknown };
  readonly components: readonly Component[];
  readonly dependencies: readonly Dependency[];
  readonly [more: string]: unknown;
}

export function npmPurl(name: string, version: string): string {
  return `pkg:npm/${name.replace(/^@/, "%40")}@${encodeURIComponent(version)}`;
}

/**
 * Returns a new bill from that of `npm sbom`: only the components that have one of `purls`, and the dependencies between them.
 * Corrects npm 11.6, which prints asterisks as serial number and lists a dependency once per alias.
 */
export function onlyPackages(bom: Bom, purls: ReadonlySet<string>): Bom {
  const components = bom.components.filter(({ purl }) => purl !== undefined && purls.has(purl));
  const refs = new Set([bom.metadata.component, ...components].map((component) => component["bom-ref"]));
  const dependencies = bom.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: [...new Set(dependsOn)].filter((other) => refs.has(other)) }));
  return { ...bom, serialNumber: serialNumberOf(components), components, dependencies };
}

/** The same for the same content (UUID version 8). */
export function serialNumberOf(content: unknown): string {
  const hex = createHash("sha256").update(JSON.stringify(content)).digest("hex");
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return `urn:uuid:${parts.join("-")}`;
}
