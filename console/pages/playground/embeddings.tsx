// Similarity of several texts.
import { Button, Group, Loader, ScrollArea, Stack, Table, Text, Textarea } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useFilter } from "../../app/place.ts";
import type { Usage } from "../../domain/chat.ts";
import { similarities } from "../../domain/similarity.ts";
import { text } from "../../text/playground.ts";
import { save } from "../../ui/data-table.tsx";
import { Empty } from "../../ui/page.tsx";
import { Bench } from "./bench.tsx";
import { useCall } from "./call-model.ts";
import { CallCode } from "./code-dialog.tsx";
import { RunFigures } from "./figures.tsx";
import { chosenOf, ModelSelect } from "./model-select.tsx";
import type { ModeProps } from "./playground.tsx";

const words = text.embeddings;
const maxTexts = 32;

interface Vectors {
  readonly texts: readonly string[];
  readonly vectors: readonly (readonly number[])[];
  readonly usage: Pick<Usage, "prompt_tokens" | "estimated_cost">;
}

interface Body {
  readonly data: readonly { readonly index: number; readonly embedding: readonly number[] }[];
  readonly usage: Vectors["usage"];
}

export function Embeddings({ models }: ModeProps): ReactNode {
  const [wanted, setModel] = useFilter("model");
  const model = chosenOf(models, wanted).model_name;
  const [value, setValue] = useState<string>(words.example.join("\n"));
  const call = useCall<Vectors>();
  const texts = value
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(0, maxTexts);
  const run = () =>
    call.start(model, "/v1/embeddings", { model, input: texts }, async (response) => {
      const { data, usage } = (await response.json()) as Body;
      const sorted = [...data].sort((a, b) => a.index - b.index);
      return { texts, usage, vectors: sorted.map(({ embedding }) => embedding) };
    });
  const { done } = call;
  return (
    <Bench
      title={text.modes.embeddings}
      about={words.about}
      run={words.run}
      why={texts.length < 2 ? words.tooFew : undefined}
      isBusy={call.isBusy}
      error={call.error}
      onRun={run}
      onStop={call.stop}
      code={<CallCode model={model} task="embeddings" body={{ input: texts }} />}
      fields={
        <>
          <ModelSelect models={models} value={model} onChange={setModel} />
          <Textarea
            label={words.texts}
            description={words.textsHint}
            autosize
            minRows={6}
            maxRows={16}
            value={value}
            onChange={(event) => setValue(event.currentTarget.value)}
          />
        </>
      }
    >
      {call.isBusy && <Loader type="dots" />}
      {!done && !call.isBusy && <Empty>{words.empty}</Empty>}
      {done && <Matrix of={done.result} />}
      {done && (
        <>
          <RunFigures
            requestId={done.requestId}
            totalMs={done.totalMs}
            costUsd={done.result.usage.estimated_cost}
            parts={[
              text.figures.inputTokens(done.result.usage.prompt_tokens),
              words.dimensions(done.result.vectors[0]?.length ?? 0),
            ]}
          />
          <div>
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => save("vectors.json", "application/json", JSON.stringify(done.result))}
            >
              {words.download}
            </Button>
          </div>
        </>
      )}
    </Bench>
  );
}

function Matrix({ of: { texts, vectors } }: { of: Vectors }): ReactNode {
  const rows = similarities(vectors);
  const closest = closestPair(rows);
  return (
    <Stack gap="xs">
      <ScrollArea type="auto">
        <Table aria-label={words.matrix} className="matrix">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">{words.text}</Table.Th>
              {texts.map((one, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: texts may repeat.
                <Table.Th key={at} scope="col" title={one}>
                  {at + 1}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: texts may repeat.
              <Table.Tr key={at}>
                <Table.Th scope="row" fw={400}>
                  <Group gap={6} wrap="nowrap">
                    <b>{at + 1}</b>
                    <Text size="xs" truncate maw={220} title={texts[at] ?? ""}>
                      {texts[at]}
                    </Text>
                  </Group>
                </Table.Th>
                {row.map((value, other) => (
                  <Table.Td
                    // biome-ignore lint/suspicious/noArrayIndexKey: texts may repeat.
                    key={other}
                    className="number"
                    style={{
                      background: `color-mix(in srgb, var(--mantine-color-ember-5) ${Math.round(Math.max(0, value) * 75)}%, transparent)`,
                    }}
                  >
                    {value.toFixed(2)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </ScrollArea>
      {closest && <Text size="sm">{words.closest(closest.a + 1, closest.b + 1, closest.value.toFixed(3))}</Text>}
    </Stack>
  );
}

function closestPair(rows: readonly (readonly number[])[]) {
  return rows
    .flatMap((row, a) => row.flatMap((value, b) => (b > a ? [{ a, b, value }] : [])))
    .reduce<{ a: number; b: number; value: number } | undefined>(
      (best, one) => (best && best.value >= one.value ? best : one),
      undefined,
    );
}
