import { describe, expect, it } from "vitest";
import { openSection, releaseSection, sectionOf } from "../../../scripts/release/changelog.ts";
import { contentsOf, missingTypes, provenanceOf } from "../../../scripts/release/statements.ts";
import { withVersion } from "../../../scripts/release/version.ts";

const log = "# Changelog\n\nFor operators.\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2026-01-01)\n\n- First.\n";

describe("the changelog of a release", () => {
  it("gives the section of the version its date, and has it as the release's text", () => {
    const released = releaseSection(log, "0.2.0", "2026-02-03");
    expect(released).toContain("\n## 0.2.0 (2026-02-03)\n\n- New.\n");
    expect(sectionOf(released, "0.2.0")).toBe("- New.");
    expect(sectionOf(released, "0.1.0")).toBe("- First.");
  });

  it("refuses a version without an unreleased section", () => {
    for (const version of ["0.1.0", "0.3.0"])
      expect(() => releaseSection(log, version, "2026-02-03")).toThrow(`no section "## ${version} (unreleased)"`);
    expect(() => sectionOf(log, "0.3.0")).toThrow("no section of 0.3.0");
  });

  it("has the next version above the newest one", () => {
    expect(openSection(log, "0.3.0")).toContain("For operators.\n\n## 0.3.0 (unreleased)\n\n## 0.2.0 (unreleased)\n");
  });
});

describe("the version of the product", () => {
  it("changes with images, the chart and the command line's package, and nowhere else", () => {
    const text = [
      "version: 0.1.0",
      "appVersion: 0.1.0",
      "image: stoker-agent:0.1.0",
      `image: \${IMAGE:-stoker-control-plane:0.1.0}`,
      "stoker-cli-0.1.0.tgz",
    ].join("\n");
    expect(withVersion(text, "0.1.0", "0.2.0")).toBe(text.replaceAll("0.1.0", "0.2.0"));
    const other = "Agents back to 0.1.0. apiVersion: 0.1.0 redis:0.1.0 stoker-agent:0.1.01";
    expect(withVersion(other, "0.1.0", "0.2.0")).toBe(other);
  });
});

describe("the provenance of an image", () => {
  const built = {
    name: "registry.example.com/stoker-agent",
    digest: `sha256:${"a".repeat(64)}`,
    target: "agent",
    base: `debian@sha256:${"b".repeat(64)}`,
    sourceUri: "pkg:generic/stoker@0.1.0",
    commit: "c".repeat(40),
    isCommitted: true,
    platform: undefined,
    lockDigest: "d".repeat(64),
    startedAt: new Date(0),
    finishedAt: new Date(60_000),
  };

  it("names the image by digest, and the commit, lock file and base that it was built from", () => {
    const { subject, predicateType, predicate } = provenanceOf(built);
    expect(subject).toEqual([{ name: built.name, digest: { sha256: "a".repeat(64) } }]);
    expect(predicateType).toBe("https://slsa.dev/provenance/v1");
    expect(predicate).toMatchObject({
      buildDefinition: {
        externalParameters: { target: "agent", base: built.base },
        internalParameters: { isCommitted: true },
        resolvedDependencies: [
          { digest: { gitCommit: built.commit } },
          { digest: { sha256: built.lockDigest } },
          { uri: built.base, digest: { sha256: "b".repeat(64) } },
        ],
      },
      runDetails: { metadata: { startedOn: "1970-01-01T00:00:00.000Z", finishedOn: "1970-01-01T00:01:00.000Z" } },
    });
  });

  it("is complete with the provenance and the contents only", () => {
    const [provenance, contents] = [provenanceOf(built), contentsOf(built, {})];
    expect(missingTypes([provenance, contents])).toEqual([]);
    expect(missingTypes([provenance])).toEqual(["https://cyclonedx.org/bom"]);
    expect(missingTypes([])).toEqual(["https://slsa.dev/provenance/v1", "https://cyclonedx.org/bom"]);
  });

  it("claims no digest of a base that was made on the building machine", () => {
    const { predicate } = provenanceOf({ ...built, base: "debootstrap" });
    expect(predicate).toMatchObject({ buildDefinition: { resolvedDependencies: [{}, {}, { uri: "debootstrap" }] } });
    expect(JSON.stringify(predicate)).not.toContain("b".repeat(64));
  });
});
