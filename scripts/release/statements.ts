// What a release attests of an image: where and from what it was built (SLSA provenance 1.0), and what it holds (CycloneDX).
import type { Statement } from "./signatures.ts";

export interface Built {
  /** Repository of the image, and its digest. */
  readonly name: string;
  readonly digest: string;
  readonly target: string;
  /** Base image, with its digest where it has one. */
  readonly base: string;
  /** Undefined: that of the machine which built it. */
  readonly platform: string | undefined;
  readonly sourceUri: string;
  readonly commit: string;
  /** False where the sources were not exactly those of the commit. */
  readonly isCommitted: boolean;
  /** SHA-256 of package-lock.json. */
  readonly lockDigest: string;
  readonly startedAt: Date;
  readonly finishedAt: Date;
}

const provenanceType = "https://slsa.dev/provenance/v1";
const contentsType = "https://cyclonedx.org/bom";

/** Types of the statements that a released image lacks. */
export const missingTypes = (statements: readonly Pick<Statement, "predicateType">[]): readonly string[] =>
  [provenanceType, contentsType].filter((type) => !statements.some(({ predicateType }) => predicateType === type));

const statementAbout = (
  built: Pick<Built, "name" | "digest">,
  predicateType: string,
  predicate: unknown,
): Statement => ({
  _type: "https://in-toto.io/Statement/v1",
  subject: [{ name: built.name, digest: { sha256: built.digest.replace("sha256:", "") } }],
  predicateType,
  predicate,
});

/** https://slsa.dev/spec/v1.0/provenance */
export function provenanceOf(built: Built): Statement {
  const baseDigest = /@sha256:([0-9a-f]{64})$/.exec(built.base)?.[1];
  return statementAbout(built, provenanceType, {
    buildDefinition: {
      buildType: "urn:stoker:build:runtime-image:1",
      externalParameters: {
        target: built.target,
        base: built.base,
        ...(built.platform === undefined ? {} : { platform: built.platform }),
      },
      internalParameters: { isCommitted: built.isCommitted },
      resolvedDependencies: [
        { uri: built.sourceUri, digest: { gitCommit: built.commit } },
        { uri: "package-lock.json", digest: { sha256: built.lockDigest } },
        { uri: built.base, ...(baseDigest === undefined ? {} : { digest: { sha256: baseDigest } }) },
      ],
    },
    runDetails: {
      builder: { id: "urn:stoker:builder:release-script:1" },
      metadata: { startedOn: built.startedAt.toISOString(), finishedOn: built.finishedAt.toISOString() },
    },
  });
}

/** `bom`: the CycloneDX document in the image. */
export function contentsOf(built: Pick<Built, "name" | "digest">, bom: unknown): Statement {
  return statementAbout(built, contentsType, bom);
}
