/** One workflow: its graph in each version, how it has done, and its latest runs task by task. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { grid as gridOf, statistics as statisticsOf, useMayAct, workflow } from "../api/queries.ts";
import type { Graph, Workflow } from "../api/types.ts";
import type { Drawing } from "../graph/drawing.ts";
import { Icon } from "../parts/Icon.tsx";
import { Copy } from "../parts/Json.tsx";
import { Loading, Page, Wrong } from "../parts/Page.tsx";
import { Tabs } from "../parts/Tabs.tsx";
import { one, type Search } from "../search.ts";
import { Figures } from "./Figures.tsx";
import { GridTable } from "./GridTable.tsx";
import { StartRun } from "./StartRun.tsx";
import "./workflows.css";

const GraphView = lazy(() => import("../graph/GraphView.tsx"));
const TABS = ["graph", "latest runs", "statistics", "source"] as const;

export function WorkflowView() {
  const { name } = useParams({ from: "/workflows/$name" });
  const search = useSearch({ strict: false }) as Search;
  const version = one(search.version);
  const { data, error, refetch } = useQuery(workflow(name, version));
  if (error)
    return (
      <Page title={name}>
        <Wrong why={error} again={() => void refetch()} />
      </Page>
    );
  return data ? <Shown shown={data} search={search} /> : <Loading />;
}

function Shown({ shown, search }: { shown: Workflow; search: Search }) {
  const navigate = useNavigate({ from: "/workflows/$name" });
  const mayAct = useMayAct();
  const [starting, setStarting] = useState(false);
  const tab = TABS.find((name) => name === one(search.tab)) ?? "graph";
  const set = (change: Search) =>
    void navigate({ search: (before: Search) => ({ ...before, ...change }), replace: true });
  const drawing = useMemo(() => drawingOf(shown.graph), [shown.graph]);
  const statistics = useQuery(statisticsOf(shown.name)).data;
  const grid = useQuery(gridOf(shown.name)).data;
  const newest = shown.versions[0]?.version;
  return (
    <Page
      name={shown.name}
      title={
        <span className="run-title">
          <Link to="/workflows" className="faint">
            Workflows
          </Link>
          <Icon name="right" size={12} /> {shown.name}
        </span>
      }
      actions={
        <>
          {shown.versions.length > 0 && (
            <label className="row">
              <span className="faint">Version</span>
              <select
                className="input mono version"
                value={shown.version}
                onChange={(event) =>
                  set({ version: event.target.value === newest ? undefined : event.target.value })
                }
              >
                {shown.versions.map((each) => (
                  <option key={each.id} value={each.version}>
                    {each.version.slice(0, 16)}
                    {each.version === newest ? " (newest)" : ""}
                  </option>
                ))}
              </select>
            </label>
          )}
          <Link to="/runs" search={{ workflow: shown.name }} className="button">
            Runs
          </Link>
          {mayAct && (
            <button type="button" className="button primary" onClick={() => setStarting(true)}>
              <Icon name="play" size={13} /> Start a run
            </button>
          )}
        </>
      }
    >
      {shown.description && <p className="quiet">{shown.description}</p>}
      {statistics && <Figures statistics={statistics} />}
      <Tabs
        label="Views of the workflow"
        tabs={TABS.map((name) => ({ id: name, name }))}
        chosen={tab}
        choose={(name) => set({ tab: name === "graph" ? undefined : name })}
      />
      <div className="card view" data-tab={tab} role="tabpanel" aria-label={tab}>
        {tab === "graph" && (
          <Suspense fallback={<Loading />}>
            <GraphView drawing={drawing} label={`Graph of ${shown.name}`} />
          </Suspense>
        )}
        {tab === "latest runs" && <GridTable grid={grid} workflow={shown.name} />}
        {tab === "statistics" && <Figures statistics={statistics} byTask />}
        {tab === "source" && (
          <div className="body halves">
            <Source name="Mermaid" text={shown.mermaid} />
            <Source name="Graphviz" text={shown.dot} />
          </div>
        )}
      </div>
      {starting && <StartRun of={shown.name} close={() => setStarting(false)} />}
    </Page>
  );
}

function Source({ name, text }: { name: string; text: string }) {
  return (
    <section>
      <h3>{name}</h3>
      <div className="json-box">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with the keyboard */}
        <pre className="json" tabIndex={0}>
          {text}
        </pre>
        <Copy text={text} what={name} />
      </div>
    </section>
  );
}

function drawingOf(graph: Graph): Drawing {
  const labelled = new Set(graph.edges.filter((edge) => edge.rule).map((edge) => edge.to));
  return {
    boxes: graph.nodes.map((node) => ({
      id: node.name,
      title: node.name,
      kind: node.kind,
      sub: subOf(node),
      rule: labelled.has(node.name) ? undefined : (node.rule ?? undefined),
      isOutput: node.kind === "task" && node.is_output,
    })),
    arrows: graph.edges.map((edge) => ({ from: edge.from, to: edge.to, label: edge.rule ?? undefined })),
  };
}

function subOf(node: Graph["nodes"][number]): string {
  if (node.kind === "state") return node.is_output ? "ends here" : "state";
  const each = node.for_each ? `for each of ${node.for_each}` : "task";
  return node.attempts && node.attempts > 1 ? `${each} · ${node.attempts} attempts` : each;
}
