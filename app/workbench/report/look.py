"""The style of the page: plain white on every screen, quiet, and ready for paper."""

CSS = """
:root { color-scheme: light; --ink: #1f2933; --muted: #5a6673; --line: #e3e7ec; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", "Helvetica Neue", Arial,
  "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
.mark { margin: 0; color: var(--muted); font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; }
h1 { margin: .2rem 0 .8rem; font-size: 1.7rem; line-height: 1.25; font-weight: 600; }
h1 span { color: var(--muted); font-weight: 400; }
h2 { margin: 3rem 0 .8rem; padding-top: .8rem; border-top: 1px solid var(--line); font-size: 1.2rem; font-weight: 600; }
h3 { margin: 0 0 .4rem; font-size: .95rem; font-weight: 600; }
header p { max-width: 44rem; color: var(--muted); }
header .mark + h1 + p em { font-style: normal; color: var(--ink); }
figure { margin: 0 0 2rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; }
figure svg text { font-family: inherit; }
figcaption { max-width: 46rem; margin-top: .3rem; color: var(--muted); font-size: .85rem; }
details { margin-top: .4rem; font-size: .85rem; }
details details { font-size: 1em; }
summary { color: var(--muted); cursor: pointer; }
section > details > summary { margin-bottom: 1.2rem; font-size: .95rem; color: var(--ink); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
figure table { margin-top: .4rem; }
th, td { padding: .22rem 1rem .22rem 0; border-bottom: 1px solid var(--line); text-align: left; font-weight: 400;
  vertical-align: top; }
tbody th, tbody td { white-space: nowrap; }
thead th { color: var(--muted); vertical-align: bottom; }
.number { padding: .22rem 1rem; text-align: right; }
tbody .said { white-space: normal; }
pre { padding: .8rem 1rem; border: 1px solid var(--line); border-radius: 4px; white-space: pre-wrap; font-size: .8rem;
  overflow-wrap: anywhere; }
@media print {
  @page { margin: 16mm; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  .single { break-before: page; }
  h2, h3 { break-after: avoid; }
  details::details-content { display: block; content-visibility: visible; }
  figure > details { display: none; }
  .wide { overflow-x: visible; }
  table { font-size: 7.5pt; }
  th, td { padding-right: .5rem; }
  .number { padding-left: .5rem; }
}
"""
