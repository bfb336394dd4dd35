import { NumberInput, SimpleGrid } from "@mantine/core";
import type { ReactNode } from "react";
import { isLanguageModel } from "../../domain/new-deployment.ts";
import { text } from "../../text/deployments.ts";
import { ErrorNotice } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { fieldOf } from "./fits.ts";
import type { FormPart } from "./model-choice.tsx";

const words = text.create;

export function ScaleFields({ form, change, faults, error }: FormPart): ReactNode {
  return (
    <Section title={words.scale}>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <NumberInput
          label={words.min}
          description={words.minHint}
          min={0}
          max={1000}
          value={form.min}
          onChange={(value) => change({ min: Number(value), max: Math.max(form.max, Number(value)) })}
        />
        <NumberInput
          label={words.max}
          description={words.maxHint}
          min={1}
          max={1000}
          value={form.max}
          error={faults.max && words.faults[faults.max]}
          onChange={(value) => change({ max: Number(value) })}
        />
        <NumberInput
          label={words.idle}
          description={words.idleHint}
          min={60}
          max={2_592_000}
          placeholder="900"
          value={form.idle}
          disabled={form.min > 0 && form.idle === ""}
          error={faults.idle && words.faults[faults.idle]}
          onChange={(value) => change({ idle: String(value) })}
        />
        {isLanguageModel(form) && (
          <NumberInput
            label={words.sleep}
            description={words.sleepHint}
            min={0}
            max={2_592_000}
            value={form.sleep}
            onChange={(value) => change({ sleep: String(value) })}
          />
        )}
        <NumberInput
          label={words.targetTtft}
          description={words.targetTtftHint}
          min={1}
          value={form.targetTtft}
          onChange={(value) => change({ targetTtft: String(value) })}
        />
        <NumberInput
          label={words.targetQueue}
          description={words.targetQueueHint}
          min={1}
          value={form.targetQueue}
          onChange={(value) => change({ targetQueue: String(value) })}
        />
      </SimpleGrid>
      {fieldOf(error) === "scale" && <ErrorNotice error={error} />}
    </Section>
  );
}
