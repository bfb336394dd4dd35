import { Button, Stack, Text, Title } from "@mantine/core";
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
  Navigate,
  useParams,
} from "@tanstack/react-router";
import type { ComponentType, ReactNode } from "react";
import { text } from "../text/common.ts";
import { LinkButton } from "../ui/link.tsx";
import { ErrorNotice } from "../ui/notice.tsx";
import { Page } from "../ui/page.tsx";
import { base } from "./base.ts";
import { pages } from "./navigation.ts";
import type { PageEntry } from "./page-entry.ts";
import { parseSearch, stringifySearch } from "./place.ts";
import { Shell } from "./shell.tsx";
import { ChangeRight, mayDo, useVisitor } from "./visitor.ts";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Crashed });

const routes = pages.map((page) =>
  createRoute({
    getParentRoute: () => root,
    path: page.path,
    component: lazyRouteComponent(async () => ({ default: allowed(page, await page.load()) })),
  }),
);

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: base,
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  scrollRestoration: true,
});

/** Parameter of the page's path, decoded. */
export const useParam = (name: string): string =>
  (useParams({ strict: false }) as Readonly<Record<string, string | undefined>>)[name] ?? "";

/** A page does not exist for those who may not see it. */
function allowed(page: PageEntry, Content: ComponentType): ComponentType {
  const { path, section, isForOwner, reads = "read", changes = "change" } = page;
  return function GuardedPage() {
    const visitor = useVisitor();
    const { me, operator } = visitor;
    const isHidden =
      section === "operator" ? !me.is_admin : (isForOwner && operator !== undefined) || !mayDo(visitor, reads);
    // Whoever may not read resources begins with what everybody may see.
    if (isHidden && path === "/") return <Navigate to="/usage" replace />;
    if (isHidden) return <NotFound />;
    return (
      <ChangeRight.Provider value={changes}>
        <Content />
      </ChangeRight.Provider>
    );
  };
}

function NotFound(): ReactNode {
  return (
    <Page title={text.notFound.title}>
      <div>
        <LinkButton to="/">{text.notFound.back}</LinkButton>
      </div>
    </Page>
  );
}

function Crashed({ error }: ErrorComponentProps): ReactNode {
  return (
    <Stack p="lg" gap="md">
      <Title order={1}>{text.crashed.title}</Title>
      <Text>{text.crashed.advice}</Text>
      <ErrorNotice error={error} />
      <div>
        <Button onClick={() => location.reload()}>{text.crashed.reload}</Button>
      </div>
    </Stack>
  );
}
