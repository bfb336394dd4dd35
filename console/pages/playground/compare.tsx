// The same prompt to two models at the same time.
import { Group, Loader, NumberInput, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useFilter } from "../../app/place.ts";
import { type Answer, type Content, tokensPerSecond } from "../../domain/chat.ts";
import { defaultSettings, requestOf, type Settings, type Turn, textOf } from "../../domain/conversations.ts";
import { text } from "../../text/playground.ts";
import { count, usd } from "../../ui/format.ts";
import { ErrorNotice } from "../../ui/notice.tsx";
import { Empty, Section } from "../../ui/page.tsx";
import { ChatCode } from "./code-dialog.tsx";
import { Composer } from "./composer.tsx";
import { ChatFigures } from "./figures.tsx";
import { MessageText } from "./message-text.tsx";
import { chosenOf, ModelSelect } from "./model-select.tsx";
import type { ModeProps } from "./playground.tsx";
import { SettingsForm } from "./settings-form.tsx";
import { type Outcome, useChatRun } from "./use-chat-run.ts";

const words = text.compare;

type Pair<Value> = readonly [Value, Value];

export function Compare({ models }: ModeProps): ReactNode {
  const [first, setFirst] = useFilter("model");
  const [second, setSecond] = useFilter("with");
  const [settings, setSettings] = useState<Settings>(defaultSettings);
  const [temperatures, setTemperatures] = useState<Pair<number>>([0, 1]);
  const [prompt, setPrompt] = useState<Content>("");
  const [outcomes, setOutcomes] = useState<Pair<Outcome | undefined>>([undefined, undefined]);
  const runs = [useChatRun(), useChatRun()] as const;
  const names: Pair<string> = [
    chosenOf(models, first).model_name,
    chosenOf(models, second || models[1]?.model_name || "").model_name,
  ];
  const isSame = names[0] === names[1];
  const own = (at: 0 | 1): Settings => (isSame ? { ...settings, temperature: temperatures[at] } : settings);
  const isBusy = runs.some(({ live }) => live !== undefined);
  const send = (content: Content) => {
    const turns: readonly Turn[] = [{ message: { role: "user", content } }];
    setPrompt(content);
    setOutcomes([undefined, undefined]);
    for (const at of [0, 1] as const) {
      const keep = (outcome: Outcome) =>
        setOutcomes(([a, b]): Pair<Outcome | undefined> => (at === 0 ? [outcome, b] : [a, outcome]));
      void (async () => {
        try {
          keep(await runs[at].start(requestOf(names[at], own(at), turns)));
        } catch (error) {
          // The settings cannot be sent.
          keep({ answer: noneYet, error, isPartial: true });
        }
      })();
    }
  };
  const hasResult = outcomes.some((one) => one !== undefined) || isBusy;
  return (
    <Stack gap="md">
      <Section title={text.modes.compare} about={isSame ? words.same : words.about}>
        <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="sm">
          {([0, 1] as const).map((at) => (
            <Stack key={at} gap="xs">
              <ModelSelect
                label={at === 0 ? words.first : words.second}
                models={models}
                value={names[at]}
                onChange={at === 0 ? setFirst : setSecond}
              />
              {isSame && (
                <NumberInput
                  label={words.temperatures[at]}
                  size="xs"
                  min={0}
                  max={2}
                  step={0.1}
                  value={temperatures[at]}
                  onChange={(value) =>
                    setTemperatures(([a, b]) => (at === 0 ? [Number(value), b] : [a, Number(value)]))
                  }
                />
              )}
            </Stack>
          ))}
        </SimpleGrid>
        <details style={{ marginTop: "var(--mantine-spacing-sm)" }}>
          <summary>{text.chat.settings}</summary>
          <SettingsForm settings={settings} maxOutput={0} onChange={setSettings} />
        </details>
        <Composer
          label={words.prompt}
          initial={text.chat.examples[2]}
          isKept
          isBusy={isBusy}
          onSend={send}
          onStop={() => {
            for (const run of runs) run.stop();
          }}
        />
      </Section>
      {hasResult ? (
        <>
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            {([0, 1] as const).map((at) => (
              <Section
                key={at}
                title={isSame ? `${names[at]} (${own(at).temperature})` : names[at]}
                actions={
                  <ChatCode
                    requestOf={() =>
                      requestOf(names[at], own(at), [{ message: { role: "user", content: textOf(prompt) } }])
                    }
                  />
                }
              >
                <Column live={runs[at].live} outcome={outcomes[at]} />
              </Section>
            ))}
          </SimpleGrid>
          <Measures of={outcomes} names={names} />
        </>
      ) : (
        <Section>
          <Empty>{words.empty}</Empty>
        </Section>
      )}
    </Stack>
  );
}

const noneYet: Answer = { text: "", reasoning: "", toolCalls: [], finishReason: "", requestId: "" };

function Column({ live, outcome }: { live: Answer | undefined; outcome: Outcome | undefined }): ReactNode {
  const shown = live ?? outcome?.answer;
  return (
    <Stack gap="xs" aria-live="polite" aria-busy={live !== undefined}>
      {shown?.reasoning && (
        <details className="reasoning">
          <summary>{text.chat.reasoning}</summary>
          <Text size="xs" c="dimmed" component="div" className="message-text">
            {shown.reasoning}
          </Text>
        </details>
      )}
      <MessageText value={shown?.text ?? ""} />
      {live?.text === "" && <Loader type="dots" size="sm" />}
      <ErrorNotice error={outcome?.error} />
      {outcome && outcome.answer.requestId !== "" && (
        <ChatFigures of={outcome.answer} isPartial={outcome.isPartial && outcome.error === undefined} />
      )}
    </Stack>
  );
}

interface Measure {
  readonly name: string;
  readonly of: (answer: Answer) => number | undefined;
  readonly show: (value: number) => string;
  /** Undefined: neither is better. */
  readonly better?: "less" | "more";
}

const inMs = (ms: number): string => `${count(Math.round(ms))} ms`;

const measures: readonly Measure[] = [
  { name: words.measures.first, of: ({ firstMs }) => firstMs, show: inMs, better: "less" },
  { name: words.measures.total, of: ({ totalMs }) => totalMs, show: inMs, better: "less" },
  { name: words.measures.rate, of: tokensPerSecond, show: (value) => value.toFixed(1), better: "more" },
  { name: words.measures.output, of: ({ usage }) => usage?.completion_tokens, show: count },
  { name: words.measures.cost, of: ({ usage }) => usage?.estimated_cost, show: usd, better: "less" },
];

function Measures({ of: outcomes, names }: { of: Pair<Outcome | undefined>; names: Pair<string> }): ReactNode {
  const [a, b] = outcomes;
  if (!a || !b || a.error || b.error) return null;
  return (
    <Section title={words.result}>
      <Table aria-label={words.result} layout="fixed">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{words.measure}</Table.Th>
            {names.map((name, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a model may be compared with itself.
              <Table.Th key={at} className="number">
                {name.split("/").at(-1)}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {measures.map((measure) => {
            const values = [measure.of(a.answer), measure.of(b.answer)] as const;
            return (
              <Table.Tr key={measure.name}>
                <Table.Td>{measure.name}</Table.Td>
                {values.map((value, at) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: a model may be compared with itself.
                  <Table.Td key={at} className="number">
                    <Group gap={6} justify="flex-end">
                      {isBetter(measure, value, values[1 - at]) && (
                        <Text component="span" size="xs" c="green">
                          ● {words.best}
                        </Text>
                      )}
                      {value === undefined ? "–" : measure.show(value)}
                    </Group>
                  </Table.Td>
                ))}
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Section>
  );
}

function isBetter({ better }: Measure, value: number | undefined, other: number | undefined): boolean {
  if (!better || value === undefined || other === undefined || value === other) return false;
  return better === "less" ? value < other : value > other;
}
