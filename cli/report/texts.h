#pragma once
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// Language of a report; kBoth is English and Spanish side by side.
enum class Language { kEnglish, kSpanish, kBoth };

/// One text of a report in both languages; {0}, {1}, ... stand for values that need no translation.
/// stage.CAUSE, analysis.ROOT_CAUSE and advice.ROOT_CAUSE.N are looked up by what a view says.
struct ReportText {
  std::string_view id, en, es;
};

// clang-format off
inline constexpr ReportText kReportTexts[] = {
  // Document and its header
  {"title", "Final Report - Prefill vs Decode Drift Analysis", "Informe final - Análisis de deriva entre prefill y decode"},
  {"run", "Run", "Ejecución"},
  {"runs", "Runs", "Ejecuciones"},
  {"date", "Date", "Fecha"},
  {"host", "Host", "Host"},
  {"run_mode", "Run Mode", "Modo de ejecución"},
  {"mode", "Mode", "Modo"},
  {"commit", "Commit", "Commit"},
  {"run_status", "Run Status", "Estado de la ejecución"},
  {"evidence", "Evidence", "Evidencia"},
  {"waived", "Waived for the gate", "Exento del control"},
  {"device", "Device", "Dispositivo"},
  {"backend", "Backend", "Backend"},
  {"model", "Model", "Modelo"},
  {"weights", "Weights", "Pesos"},
  {"routes", "Routes", "Rutas"},
  {"inject", "Injected faults", "Fallos inyectados"},
  {"not_recorded", "not recorded", "no registrado"},
  {"not_comparable", "not comparable", "no comparable"},
  {"evidence.trace", "trace rows", "filas de traza"},
  {"evidence.report", "a table that a report printed: {0}", "una tabla impresa por un informe: {0}"},
  {"evidence.none", "none", "ninguna"},
  {"footer", "Written by greta-db: every verdict and figure is what the views of the database say.", "Escrito por greta-db: cada veredicto y cada cifra es lo que dicen las vistas de la base de datos."},

  // Verdict and why
  {"verdict", "Verdict", "Veredicto"},
  {"numeric_verdict", "Numeric verdict", "Veredicto numérico"},
  {"strict_verdict", "Strict verdict", "Veredicto estricto"},
  {"remark.within rounding", "within rounding", "dentro del redondeo"},
  {"remark.beyond rounding", "beyond rounding", "más allá del redondeo"},
  {"remark.though within rounding", "though within rounding", "aunque dentro del redondeo"},
  {"strictly", "strictly", "estrictamente"},
  {"strictly.expected", "Strictly, bit for bit, it is a FAIL: from `{0}` (layer {1}, prompt `{2}`, position {3}) on, as expected of mode `{4}`, whose phases sum in another order. That is rounding, not a bug.", "Estrictamente, bit a bit, es un FAIL: desde `{0}` (capa {1}, prompt `{2}`, posición {3}), como se espera del modo `{4}`, cuyas fases suman en otro orden. Es redondeo, no un error."},
  {"strictly.rounding", "Strictly, bit for bit, it is a FAIL: from `{0}` (layer {1}, prompt `{2}`, position {3}) on. That is rounding, not a bug.", "Estrictamente, bit a bit, es un FAIL: desde `{0}` (capa {1}, prompt `{2}`, posición {3}). Es redondeo, no un error."},
  {"strictly.fails", "Strictly, bit for bit, it is a FAIL: from `{0}` (layer {1}, prompt `{2}`, position {3}) on.", "Estrictamente, bit a bit, es un FAIL: desde `{0}` (capa {1}, prompt `{2}`, posición {3})."},
  {"strictly.before", "Strictly, bit for bit, it fails from `{0}` (layer {1}, prompt `{2}`, position {3}) on; what differs before the failure beyond rounding is rounding.", "Estrictamente, bit a bit, falla desde `{0}` (capa {1}, prompt `{2}`, posición {3}); lo que difiere antes del fallo más allá del redondeo es redondeo."},
  {"reason.within", "Of {0} pairs, {1} differ, all of them within rounding, and no partner is missing.", "De {0} pares difieren {1}, todos dentro del redondeo, y no falta ninguna pareja."},
  {"reason.beyond", "{0} of {1} pairs fail by more than rounding; {2} more differ within it.", "Fallan {0} de {1} pares por más que el redondeo; otros {2} difieren dentro de él."},
  {"reason.open", "Whether `{0}` (layer {1}) is to blame is not known: what lies before it was not all traced. `{2}` tells where it arises.", "No se sabe si la culpa es de `{0}` (capa {1}): no se trazó todo lo que hay antes. `{2}` dice dónde surge."},
  {"reason.pass", "All {0} pairs are equal in what was compared, and no partner is missing.", "Los {0} pares son iguales en lo que se comparó y no falta ninguna pareja."},
  {"reason.fail", "{0} of {1} pairs fail.", "Fallan {0} de {1} pares."},
  {"reason.fail_missing", "{0} rows that must have a partner have none: prefill and decode were not traced at the same token and position.", "{0} filas que deben tener pareja no la tienen: prefill y decode no se trazaron en el mismo token y posición."},
  {"reason.none", "Nothing was compared: the run has no trace rows and no table of verdicts. This is the absence of evidence, not a PASS.", "No se comparó nada: la ejecución no tiene filas de traza ni tabla de veredictos. Es ausencia de evidencia, no un PASS."},
  {"reason.decode_only", "Nothing was compared: the {0} decode rows lie at positions where prefill was not traced. This is the absence of evidence, not a PASS.", "No se comparó nada: las {0} filas de decode están en posiciones donde prefill no se trazó. Es ausencia de evidencia, no un PASS."},
  {"reason.one_side", "Nothing was compared: one side was not traced, or its positions are not known. This is the absence of evidence, not a PASS.", "No se comparó nada: un lado no se trazó o sus posiciones no se conocen. Es ausencia de evidencia, no un PASS."},
  {"reason.unmet", "{0} rows that the run declares, by its plan or by their number, are not there.", "Faltan {0} filas que la ejecución declara, por su plan o por su número."},
  {"reason.unfinished", "The run did not finish: its status is {0}.", "La ejecución no terminó: su estado es {0}."},
  {"reason.incomparable", "{0} of {1} pairs could not be decided: no hash, sample or sketch of both sides is comparable.", "{0} de {1} pares no se pudieron decidir: ningún hash, muestra o sketch de ambos lados es comparable."},
  {"reason.ingest_open", "An ingest of its files has not ended: what is still to come could be where it fails.", "Una ingesta de sus archivos no ha terminado: lo que falta por llegar puede ser donde falla."},
  {"reason.rejected", "{0} of its lines and files were not taken, such as: {1}.", "{0} de sus líneas y archivos no se tomaron, por ejemplo: {1}."},
  {"reason.claimed", "Documents alone state these {0} pairs. A claim can fail a run and not pass it.", "Sólo documentos afirman estos {0} pares. Una afirmación puede hacer fallar una ejecución, no aprobarla."},
  {"reason.doubt", "The pairs are equal, but a document lists failures that the rows do not show, or some rows stand in documents only.", "Los pares son iguales, pero un documento lista fallos que las filas no muestran, o algunas filas sólo están en documentos."},
  {"coverage.partial", "Some rows have no partner on the other side: they were not compared.", "Algunas filas no tienen pareja en el otro lado: no se compararon."},
  {"coverage.complete", "Every row that the run's plan declares was traced.", "Se trazaron todas las filas que declara el plan de la ejecución."},
  {"coverage.undeclared", "The run declares no plan: what it should have traced is not known.", "La ejecución no declara un plan: no se sabe qué debía trazar."},
  {"coverage.sampled", "Some pairs compare only part of their row: a match says nothing about the rest.", "Algunos pares comparan sólo parte de su fila: una coincidencia no dice nada del resto."},
  {"coverage.unmet", "Rows that the run declares are not there.", "Faltan filas que la ejecución declara."},

  // Short report
  {"brief.title", "Prefill vs Decode", "Prefill vs decode"},
  {"brief.counts", "{0} runs: {1}.", "{0} ejecuciones: {1}."},
  {"brief.where", "Where", "Dónde"},
  {"brief.place", "`{0}`, layer {1}, prompt `{2}`, position {3}: {4}", "`{0}`, capa {1}, prompt `{2}`, posición {3}: {4}"},
  {"brief.distance", "{0} (tolerance {1})", "{0} (tolerancia {1})"},
  {"brief.why", "Why", "Por qué"},
  {"brief.arises", "it arises {0}", "surge {0}"},
  {"brief.lies", "it lies {0}, of which not all was traced", "está {0}, y no todo se trazó"},
  {"brief.since", "Since", "Desde"},
  {"brief.first_bad", "run `{0}` ({1}); the last good one is `{2}` ({3})", "la ejecución `{0}` ({1}); la última buena es `{2}` ({3})"},
  {"brief.fails_with", "its baseline `{0}` ({1}) fails as well", "su línea base `{0}` ({1}) también falla"},
  {"brief.no_baseline", "not known: no earlier run of its lineage", "no se sabe: no hay ejecución anterior de su linaje"},
  {"brief.injected", "a fault was injected on purpose", "se inyectó un fallo a propósito"},
  {"brief.change", "Against `{0}`", "Frente a `{0}`"},
  {"brief.changed_at", "{0}, from `{1}` of layer {2} on", "{0}, desde `{1}` de la capa {2}"},
  {"brief.next", "Next", "Siguiente"},
  {"brief.failing", "Runs that fail", "Ejecuciones que fallan"},
  {"brief.others", "The other runs", "Las demás ejecuciones"},
  {"brief.more", "{0} more runs fail; they are in the table below.", "Fallan otras {0} ejecuciones; están en la tabla siguiente."},
  {"brief.changed", "Change", "Cambio"},

  // Summary and breakdown
  {"summary", "Summary", "Resumen"},
  {"metric", "Metric", "Métrica"},
  {"value", "Value", "Valor"},
  {"total_pairs", "Total Pairs", "Pares totales"},
  {"pass", "Pass", "Pasan"},
  {"fail", "Fail", "Fallan"},
  {"rounding", "of these within rounding", "de ellos dentro del redondeo"},
  {"divergent", "of these beyond rounding", "de ellos más allá del redondeo"},
  {"nonfinite", "of these not finite", "de ellos no finitos"},
  {"unmeasured", "of these of unknown size", "de ellos de magnitud desconocida"},
  {"incomparable", "Incomparable", "Incomparables"},
  {"missing", "Missing Pairs", "Pares ausentes"},
  {"decode_only", "Decode-only rows (context)", "Filas sólo de decode (contexto)"},
  {"unmet", "Declared rows not there", "Filas declaradas que faltan"},
  {"coverage", "Coverage", "Cobertura"},
  {"breakdown", "Failure Breakdown", "Desglose de fallos"},
  {"breakdown.within", "Differences Within Rounding", "Diferencias dentro del redondeo"},
  {"breakdown.none", "No comparison failed.", "Ninguna comparación falló."},
  {"breakdown.of", "Percentages are of all comparisons that had to match: {0}.", "Los porcentajes son de todas las comparaciones que debían coincidir: {0}."},
  {"breakdown.rounding", "Counted bit for bit: {0} of these differences are within rounding.", "Contado bit a bit: {0} de estas diferencias están dentro del redondeo."},
  {"cause", "Root Cause", "Causa raíz"},
  {"count", "Count", "Cantidad"},
  {"percentage", "Percentage", "Porcentaje"},

  // First failure and its rows
  {"first_failure", "First Failure", "Primer fallo"},
  {"first_difference", "First Difference, Within Rounding", "Primera diferencia, dentro del redondeo"},
  {"location", "Location", "Ubicación"},
  {"location.text", "`{0}` tensor, Layer {1}, Prompt `{2}`", "tensor `{0}`, capa {1}, prompt `{2}`"},
  {"prefill_step", "Prefill (step={0})", "Prefill (paso={0})"},
  {"decode_step", "Decode (step={0})", "Decode (paso={0})"},
  {"prefill", "Prefill", "Prefill"},
  {"decode", "Decode", "Decode"},
  {"hash", "Hash", "Hash"},
  {"match", "Match", "Coincide"},
  {"no", "❌ NO", "❌ NO"},
  {"no_partner", "no row here", "ninguna fila aquí"},
  {"rel_l2", "Relative L2", "L2 relativa"},
  {"tolerance", "Tolerance", "Tolerancia"},
  {"tolerance.calibrated", "calibrated", "calibrada"},
  {"tolerance.shipped", "shipped", "de serie"},
  {"details", "Details", "Detalles"},
  {"looks_like", "Looks like", "Parece"},
  {"root_cause", "Root cause", "Causa raíz"},
  {"root_cause.open", "{0}, if it arises here", "{0}, si surge aquí"},
  {"by_prompt", "First failure of every prompt", "Primer fallo de cada prompt"},
  {"prompt", "Prompt", "Prompt"},
  {"position", "Position", "Posición"},
  {"layer", "Layer", "Capa"},
  {"layers", "Layers", "Capas"},
  {"layer.none", "Layer not recorded", "Capa no registrada"},
  {"tensor", "Tensor", "Tensor"},
  {"tensor.none", "tensor not recorded", "tensor no registrado"},
  {"cause_of", "Cause", "Causa"},
  {"first_drift", "First drift", "Primera deriva"},
  {"beyond_rounding", "First beyond rounding", "Primero más allá del redondeo"},
  {"strict_first", "Strictly first", "Primero estrictamente"},
  {"sample_evidence", "Sample Trace Evidence", "Evidencia de traza"},
  {"sample_evidence.report", "The trace rows are not recorded: the verdict rests on a table that a report printed, and that table holds no rows.", "Las filas de traza no están registradas: el veredicto se apoya en una tabla impresa por un informe, y esa tabla no contiene filas."},
  {"sample_evidence.one_side", "The other side has no row at this token and position.", "El otro lado no tiene fila en este token y posición."},
  {"sample_evidence.elsewhere", "The other side traced this tensor of this layer and prompt at positions {0} to {1}.", "El otro lado trazó este tensor de esta capa y prompt en las posiciones {0} a {1}."},

  // Propagation
  {"propagation", "Drift Propagation Pattern", "Patrón de propagación de la deriva"},
  {"tree.identical", "identical in what was compared", "idéntico en lo comparado"},
  {"tree.origin", "origin: its nearest traced inputs match", "origen: sus entradas trazadas más cercanas coinciden"},
  {"tree.from_same", "propagated from {0}", "propagado desde {0}"},
  {"tree.from_previous", "propagated from {0} of the previous traced layer", "propagado desde {0} de la capa trazada anterior"},
  {"tree.from_layer", "propagated from {0} of layer {1}", "propagado desde {0} de la capa {1}"},
  {"tree.propagated", "propagated", "propagado"},
  {"tree.unsampled", "none of its inputs was traced", "ninguna de sus entradas se trazó"},
  {"tree.untraced", "layers {0} before it were not traced", "las capas anteriores {0} no se trazaron"},
  {"tree.rounding", "within rounding", "dentro del redondeo"},
  {"tree.missing", "no partner", "sin pareja"},
  {"tree.undecided", "nothing decides it", "nada lo decide"},
  {"tree.positions", "{0} of {1} positions", "{0} de {1} posiciones"},

  // Root cause analysis
  {"analysis", "Root Cause Analysis", "Análisis de causa raíz"},
  {"analysis.first", "`{0}` (layer {1}, prompt `{2}`, position {4}) is the first comparison in forward order that fails: {3}.", "`{0}` (capa {1}, prompt `{2}`, posición {4}) es la primera comparación que falla en el orden de cálculo: {3}."},
  {"analysis.origin", "Its nearest traced inputs match, so the difference arises between them and this tensor.", "Sus entradas trazadas más cercanas coinciden, así que la diferencia surge entre ellas y este tensor."},
  {"analysis.origin_numeric", "Its nearest traced inputs match but for rounding, so the difference arises between them and this tensor.", "Sus entradas trazadas más cercanas coinciden salvo redondeo, así que la diferencia surge entre ellas y este tensor."},
  {"analysis.segment", "It arises in this stretch: {0}.", "Surge en este tramo: {0}."},
  {"analysis.open", "It lies in this stretch, of which not all was traced: {0}.", "Está en este tramo, del que no se trazó todo: {0}."},
  {"analysis.propagated", "It is not the origin: a traced input already differs, `{0}`.", "No es el origen: una entrada trazada ya difiere, `{0}`."},
  {"analysis.unsampled", "None of its inputs was traced: the difference may come from any earlier step.", "Ninguna de sus entradas se trazó: la diferencia puede venir de cualquier paso anterior."},
  {"analysis.drift_behind", "Among the rows that do have a partner, the first that differs is `{0}` at layer {1} of prompt `{2}` ({3}).", "Entre las filas que sí tienen pareja, la primera que difiere es `{0}` en la capa {1} del prompt `{2}` ({3})."},
  {"analysis.rounding", "Its size is that of rounding: relative L2 {0}, tolerance {1}.", "Su magnitud es la del redondeo: L2 relativa {0}, tolerancia {1}."},
  {"analysis.divergent", "It is larger than rounding: relative L2 {0}, tolerance {1}.", "Es mayor que el redondeo: L2 relativa {0}, tolerancia {1}."},
  {"analysis.unmeasured", "Whether it is rounding or a bug is not known: no sample or sketch was recorded to measure it by.", "No se sabe si es redondeo o un error: no se registró muestra ni sketch con que medirla."},
  {"analysis.nonfinite", "NaN or infinite values are in the row: {0}.", "La fila contiene valores NaN o infinitos: {0}."},
  {"analysis.spread", "Of the {0} pairs that fail, {1} are origins (their nearest traced inputs match), {2} are propagated from an input that already differed and {3} have no traced input.", "De los {0} pares que fallan, {1} son origen (sus entradas trazadas más cercanas coinciden), {2} se propagan desde una entrada que ya difería y {3} no tienen entradas trazadas."},
  {"analysis.spread_numeric", "Of the {0} pairs that fail by more than rounding, {1} are origins (their nearest traced inputs match but for rounding), {2} are propagated from an input that already failed so and {3} have an origin that was not traced.", "De los {0} pares que fallan por más que el redondeo, {1} son origen (sus entradas trazadas más cercanas coinciden salvo redondeo), {2} se propagan desde una entrada que ya fallaba así y {3} tienen un origen que no se trazó."},
  {"analysis.numeric_first", "Beyond rounding, the first is `{0}` at layer {1} of prompt `{2}`, position {4} ({3}): look there for the bug.", "Más allá del redondeo, el primero es `{0}` en la capa {1} del prompt `{2}`, posición {4} ({3}): ahí hay que buscar el error."},
  {"analysis.numeric_open", "Beyond rounding, the first is `{0}` at layer {1} of prompt `{2}`, position {4} ({3}): the bug lies there or before it, in what was not traced.", "Más allá del redondeo, el primero es `{0}` en la capa {1} del prompt `{2}`, posición {4} ({3}): el error está ahí o antes, en lo que no se trazó."},
  {"analysis.numeric_pass", "No difference exceeds rounding: the numeric verdict is PASS.", "Ninguna diferencia supera el redondeo: el veredicto numérico es PASS."},
  {"analysis.EMBEDDING_MISMATCH", "The embedding is a table look-up: the same token must give the same bits in both phases, so no rounding excuses this. The token, the table or its dequantisation differs.", "El embedding es una consulta a una tabla: el mismo token debe dar los mismos bits en ambas fases, así que ningún redondeo lo excusa. Difiere el token, la tabla o su descuantización."},
  {"analysis.NORMALIZATION_MISMATCH", "RMSNorm of the same input gives another output: the sum of squares is reduced in another order, or epsilon or the weight differs.", "RMSNorm de la misma entrada da otra salida: la suma de cuadrados se reduce en otro orden, o difiere épsilon o el peso."},
  {"analysis.RESIDUAL_STREAM_MISMATCH", "The residual stream differs: it sums what the layers before it wrote, so the cause lies in the last tensor added to it, or in an addition that reads a stale or a wrong row.", "El flujo residual difiere: suma lo que escribieron las capas anteriores, así que la causa está en el último tensor sumado o en una suma que lee una fila obsoleta o equivocada."},
  {"analysis.ATTENTION_COMPUTATION_MISMATCH", "The attention computation differs between the phases. Prefill attends over many tokens at once with a causal mask, decode over one token and the KV cache: other kernels, and another order of reduction.", "El cálculo de atención difiere entre las fases. Prefill atiende a muchos tokens a la vez con máscara causal; decode, a un token y la caché KV: otros kernels y otro orden de reducción."},
  {"analysis.ATTENTION_PROJECTION_MISMATCH", "The output projection (o_proj) differs: prefill multiplies matrix by matrix, decode matrix by vector, by other routes and in another order of reduction.", "La proyección de salida (o_proj) difiere: prefill multiplica matriz por matriz y decode matriz por vector, por otras rutas y con otro orden de reducción."},
  {"analysis.MLP_COMPUTATION_MISMATCH", "The MLP (gate, up, activation, down) differs: prefill multiplies matrix by matrix, decode matrix by vector, by other routes and in another order of reduction.", "El MLP (gate, up, activación, down) difiere: prefill multiplica matriz por matriz y decode matriz por vector, por otras rutas y con otro orden de reducción."},
  {"analysis.LM_HEAD_MISMATCH", "The LM head differs: its route, dequantisation or layout is not the same for many tokens and for one.", "La cabeza LM difiere: su ruta, descuantización o disposición no es la misma para muchos tokens que para uno."},
  {"analysis.PAIRING_MISMATCH", "The two sides could not be paired: this says nothing about their values, and nothing in their favour.", "Los dos lados no se pudieron emparejar: esto no dice nada de sus valores, ni a su favor."},
  {"analysis.CONTRADICTORY_EVIDENCE", "The evidence contradicts itself: equal hashes of values that cannot be equal, or equal values with other hashes. One of the two was not written by what ran.", "La evidencia se contradice: hashes iguales de valores que no pueden ser iguales, o valores iguales con otros hashes. Uno de los dos no lo escribió lo que se ejecutó."},
  {"analysis.other", "The recorded cause has no known root cause: greta does not know this trace point, so its inputs are not known either.", "La causa registrada no tiene causa raíz conocida: greta no conoce este punto de traza, así que tampoco sus entradas."},
  {"stage.Q_PRE_ROPE_DRIFT", "Stage: the Q projection, before RoPE.", "Etapa: la proyección Q, antes de RoPE."},
  {"stage.K_PRE_ROPE_DRIFT", "Stage: the K projection, before RoPE.", "Etapa: la proyección K, antes de RoPE."},
  {"stage.V_PROJ_DRIFT", "Stage: the V projection.", "Etapa: la proyección V."},
  {"stage.ROPE_DRIFT", "Stage: RoPE of Q. Q matches before it and not after it: the position, theta or the pairing of dimensions differs.", "Etapa: RoPE de Q. Q coincide antes y no después: difiere la posición, theta o el emparejamiento de dimensiones."},
  {"stage.K_ROPE_DRIFT", "Stage: RoPE of K. K matches before it and not after it: the position, theta or the pairing of dimensions differs.", "Etapa: RoPE de K. K coincide antes y no después: difiere la posición, theta o el emparejamiento de dimensiones."},
  {"stage.Q_POST_ROPE_DRIFT", "Stage: Q after RoPE; whether the projection or RoPE differs is not settled, because Q before RoPE did not match or was not traced.", "Etapa: Q después de RoPE; no está claro si difiere la proyección o RoPE, porque Q antes de RoPE no coincidió o no se trazó."},
  {"stage.K_POST_ROPE_DRIFT", "Stage: K after RoPE; whether the projection or RoPE differs is not settled, because K before RoPE did not match or was not traced.", "Etapa: K después de RoPE; no está claro si difiere la proyección o RoPE, porque K antes de RoPE no coincidió o no se trazó."},
  {"stage.K_CACHE_DRIFT", "Stage: the K row of the cache at this position: written to another slot, with another stride, or by another computation.", "Etapa: la fila K de la caché en esta posición: escrita en otra ranura, con otro paso o por otro cálculo."},
  {"stage.V_CACHE_DRIFT", "Stage: the V row of the cache at this position: written to another slot, with another stride or layout, or by another computation.", "Etapa: la fila V de la caché en esta posición: escrita en otra ranura, con otro paso o disposición, o por otro cálculo."},
  {"stage.K_CACHE_ROWS_DRIFT", "Stage: the K rows of the cache up to this position: one of an earlier token was overwritten, or written by another computation.", "Etapa: las filas K de la caché hasta esta posición: una de un token anterior fue sobrescrita, o escrita por otro cálculo."},
  {"stage.V_CACHE_ROWS_DRIFT", "Stage: the V rows of the cache up to this position: one of an earlier token was overwritten, or written by another computation.", "Etapa: las filas V de la caché hasta esta posición: una de un token anterior fue sobrescrita, o escrita por otro cálculo."},
  {"stage.ATTN_SCORES_DRIFT", "Stage: the attention scores before softmax (Q·K and its scale).", "Etapa: los puntajes de atención antes de softmax (Q·K y su escala)."},
  {"stage.ATTN_PROBS_DRIFT", "Stage: the attention probabilities after softmax: the mask, the maximum or the sum differs.", "Etapa: las probabilidades de atención después de softmax: difiere la máscara, el máximo o la suma."},
  {"stage.ATTN_OUT_DRIFT", "Stage: the attention output (heads concatenated, before o_proj).", "Etapa: la salida de atención (cabezas concatenadas, antes de o_proj)."},
  {"stage.TRACE_OFFSET", "Stage: pairing. A row that must have a partner at the same token, position, layer and tensor has none.", "Etapa: emparejamiento. Una fila que debe tener pareja en el mismo token, posición, capa y tensor no la tiene."},
  {"stage.AMBIGUOUS_TRACE", "Stage: pairing. One side holds several different rows under one key, and to pick one of them would be a guess.", "Etapa: emparejamiento. Un lado tiene varias filas distintas bajo una misma clave, y elegir una sería adivinar."},

  // Recommendations
  {"advice", "Recommendations", "Recomendaciones"},
  {"advice.numeric_first", "**Start at the first difference beyond rounding**: `{0}`, layer {1}, rather than at the strict first failure.", "**Empezar por la primera diferencia más allá del redondeo**: `{0}`, capa {1}, y no por el primer fallo estricto."},
  {"advice.probe", "**Trace what was not traced**: `{0}` tells where the difference arises.", "**Trazar lo que no se trazó**: `{0}` dice dónde surge la diferencia."},
  {"advice.trace_inputs", "**Trace the direct inputs** of `{0}` (layer {1}): {2}.", "**Trazar las entradas directas** de `{0}` (capa {1}): {2}."},
  {"advice.measure", "**Record samples or sketches**, so that rounding and a bug can be told apart.", "**Registrar muestras o sketches**, para distinguir el redondeo de un error."},
  {"advice.all_rounding", "**Decide which verdict gates**: every difference is within rounding; `--gate numeric` passes this run, strict does not.", "**Decidir qué veredicto cuenta**: toda diferencia está dentro del redondeo; `--gate numeric` acepta esta ejecución, el estricto no."},
  {"advice.ATTENTION_COMPUTATION_MISMATCH.1", "**Investigate the attention masking logic**: the causal mask may be applied differently in prefill and decode.", "**Investigar la máscara de atención**: la máscara causal puede aplicarse de forma distinta en prefill y decode."},
  {"advice.ATTENTION_COMPUTATION_MISMATCH.2", "**Verify the RoPE position**: the same absolute position must reach both phases.", "**Verificar la posición de RoPE**: la misma posición absoluta debe llegar a ambas fases."},
  {"advice.ATTENTION_COMPUTATION_MISMATCH.3", "**Check the normalisation of the attention scores**: softmax runs over another sequence length in each phase.", "**Revisar la normalización de los puntajes de atención**: softmax recorre otra longitud de secuencia en cada fase."},
  {"advice.PROJECTION.1", "**Force one route for the q, k and v projections** in both phases and compare again.", "**Forzar una sola ruta para las proyecciones q, k y v** en ambas fases y comparar de nuevo."},
  {"advice.PROJECTION.2", "**Check the accumulator type and the dequantisation scales** of these projections in the matrix-vector kernel.", "**Revisar el tipo del acumulador y las escalas de descuantización** de estas proyecciones en el kernel matriz-vector."},
  {"advice.ROPE.1", "**Compare theta, the frequency factors and the pairing of dimensions** of the two RoPE kernels.", "**Comparar theta, los factores de frecuencia y el emparejamiento de dimensiones** de los dos kernels de RoPE."},
  {"advice.ROPE.2", "**Print the position that each phase rotates by**: it must be the absolute one, also for decode.", "**Imprimir la posición con que rota cada fase**: debe ser la absoluta, también en decode."},
  {"advice.CACHE.1", "**Check slot, stride and layout** with which each phase writes the cache, and the tail of the cache for stale rows.", "**Revisar ranura, paso y disposición** con que cada fase escribe la caché, y si al final de la caché quedan filas obsoletas."},
  {"advice.SOFTMAX.1", "**Compare the score scale, the mask and the maximum that softmax subtracts** in both attention kernels.", "**Comparar la escala de los puntajes, la máscara y el máximo que resta softmax** en ambos kernels de atención."},
  {"advice.SOFTMAX.2", "**Check the mapping of query heads to KV heads** (GQA) in both attention kernels.", "**Revisar la correspondencia entre cabezas de consulta y cabezas KV** (GQA) en ambos kernels de atención."},
  {"advice.trace_kv", "**Compare the Q/K/V projections and the cache rows** at this position: trace q_post_rope, k_post_rope, v_proj, k_cache and v_cache.", "**Comparar las proyecciones Q/K/V y las filas de la caché** en esta posición: trazar q_post_rope, k_post_rope, v_proj, k_cache y v_cache."},
  {"advice.both_modes", "**Run both modes**: in kv_aligned decode attends over the rows that prefill wrote; what is left there is Q or the attention math.", "**Ejecutar ambos modos**: en kv_aligned decode atiende a las filas que escribió prefill; lo que quede es Q o el cálculo de atención."},
  {"advice.ATTENTION_PROJECTION_MISMATCH.1", "**Force one route for o_proj** in both phases and compare again.", "**Forzar una sola ruta para o_proj** en ambas fases y comparar de nuevo."},
  {"advice.ATTENTION_PROJECTION_MISMATCH.2", "**Check the dequantisation scales** of the projection in the matrix-vector kernel.", "**Revisar las escalas de descuantización** de la proyección en el kernel matriz-vector."},
  {"advice.MLP_COMPUTATION_MISMATCH.1", "**Force one route for the MLP** in both phases and compare again.", "**Forzar una sola ruta para el MLP** en ambas fases y comparar de nuevo."},
  {"advice.MLP_COMPUTATION_MISMATCH.2", "**Check the accumulator type and the dequantisation scales** of gate, up and down in the matrix-vector kernel.", "**Revisar el tipo del acumulador y las escalas de descuantización** de gate, up y down en el kernel matriz-vector."},
  {"advice.EMBEDDING_MISMATCH.1", "**Compare the token ids** that both phases looked up.", "**Comparar los ids de token** que consultaron ambas fases."},
  {"advice.EMBEDDING_MISMATCH.2", "**Compare the hash of the embedding table** (embd_w_hash) and the look-up kernel of each phase.", "**Comparar el hash de la tabla de embeddings** (embd_w_hash) y el kernel de consulta de cada fase."},
  {"advice.NORMALIZATION_MISMATCH.1", "**Verify RMSNorm**: epsilon, the sum of squares and the weight row of both phases.", "**Verificar RMSNorm**: épsilon, la suma de cuadrados y la fila de pesos de ambas fases."},
  {"advice.one_order", "**Use one reduction order** (batch_invariant) to see whether only the order differs.", "**Usar un solo orden de reducción** (batch_invariant) para ver si sólo difiere el orden."},
  {"advice.RESIDUAL_STREAM_MISMATCH.1", "**Trace every layer up to this one**: the residual stream carries the difference, it seldom makes it.", "**Trazar todas las capas hasta ésta**: el flujo residual transporta la diferencia, rara vez la crea."},
  {"advice.RESIDUAL_STREAM_MISMATCH.2", "**Check row offsets and buffer reuse** of the residual additions in both phases.", "**Revisar los desplazamientos de fila y la reutilización de buffers** de las sumas residuales en ambas fases."},
  {"advice.LM_HEAD_MISMATCH.1", "**Force the LM head to one route** (`--route lm_head=valu`, then mfma) and compare the logits.", "**Forzar la cabeza LM a una ruta** (`--route lm_head=valu`, luego mfma) y comparar los logits."},
  {"advice.LM_HEAD_MISMATCH.2", "**Audit scales and layout** of the LM head, with the CPU probe on.", "**Auditar escalas y disposición** de la cabeza LM, con la sonda de CPU activada."},
  {"advice.PAIRING_MISMATCH.1", "**List the rows without a partner**: `greta-db pairs --run '{0}' --status MISSING`; of ambiguous ones: `--status AMBIGUOUS`.", "**Listar las filas sin pareja**: `greta-db pairs --run '{0}' --status MISSING`; las ambiguas: `--status AMBIGUOUS`."},
  {"advice.PAIRING_MISMATCH.2", "**Trace prefill_last and decode0 of the same token at the same position**; decode0 of the next token is one position later and is no partner.", "**Trazar prefill_last y decode0 del mismo token en la misma posición**; decode0 del token siguiente está una posición después y no es pareja."},
  {"advice.CONTRADICTORY_EVIDENCE.1", "**List the contradictions**: `greta-db pairs --run '{0}' --status CONFLICT`, with the files they come from in `greta-db trace`.", "**Listar las contradicciones**: `greta-db pairs --run '{0}' --status CONFLICT`, con los archivos de que provienen en `greta-db trace`."},
  {"advice.CONTRADICTORY_EVIDENCE.2", "**Trace again** with one build that hashes and sums the same values.", "**Trazar de nuevo** con una sola compilación que calcule hash y sumas de los mismos valores."},
  {"advice.other.1", "**Trace the known trace points** (`greta-db schema`) around this tensor.", "**Trazar los puntos de traza conocidos** (`greta-db schema`) alrededor de este tensor."},
  {"advice.NO_EVIDENCE.1", "**Trace both sides**: prefill_last and decode0 of the same token and position, then ingest the files again.", "**Trazar ambos lados**: prefill_last y decode0 del mismo token y posición, y volver a ingerir los archivos."},
  {"advice.NO_EVIDENCE.2", "**See what was ingested and what was rejected**: `greta-db trace --run '{0}'`, table `ingest_error`.", "**Ver qué se ingirió y qué se rechazó**: `greta-db trace --run '{0}'`, tabla `ingest_error`."},
  {"advice.INCOMPLETE.1", "**Run it again to the end**: what is missing could be where it fails.", "**Ejecutarla de nuevo hasta el final**: lo que falta puede ser donde falla."},
  {"advice.INCOMPARABLE.1", "**Record both sides alike**: the same hash algorithm and element count, or samples or sketches; `greta-db pairs --run '{0}' --status INCOMPARABLE` lists what is undecided.", "**Registrar ambos lados igual**: el mismo algoritmo de hash y número de elementos, o muestras o sketches; `greta-db pairs --run '{0}' --status INCOMPARABLE` lista lo no decidido."},
  {"advice.PASS.1", "**Keep this run as the reference**: `greta-db compare` shows what later ones change.", "**Conservar esta ejecución como referencia**: `greta-db compare` muestra qué cambian las posteriores."},
  {"advice.PASS.2", "**Widen the coverage** to a declared plan and whole rows, if what was not compared matters.", "**Ampliar la cobertura** a un plan declarado y filas enteras, si importa lo que no se comparó."},

  // K and V
  {"kv", "KV Alignment Indicators", "Indicadores de alineación KV"},
  {"kv.indicator", "Indicator", "Indicador"},
  {"kv.observed", "Observed", "Observado"},
  {"kv.if_structural", "Expected if Structural", "Esperado si es estructural"},
  {"kv.if_bug", "Expected if Bug", "Esperado si hay error"},
  {"kv.k", "K hash consistency", "Consistencia del hash de K"},
  {"kv.v", "V hash consistency", "Consistencia del hash de V"},
  {"kv.aligned", "K-V aligned", "K-V alineados"},
  {"kv.cache", "Cache rows bitwise equal", "Filas de caché iguales bit a bit"},
  {"kv.cache_rows", "All cache rows up to the position bitwise equal", "Todas las filas de caché hasta la posición iguales bit a bit"},
  {"kv.may_vary", "May vary across prompts", "Puede variar entre prompts"},
  {"kv.consistent", "Should be consistent", "Debería ser consistente"},
  {"kv.false", "**FALSE** (different computations)", "**FALSE** (cálculos distintos)"},
  {"kv.true", "**TRUE** (same semantics)", "**TRUE** (misma semántica)"},
  {"kv.cache_required", "TRUE in kv_aligned mode", "TRUE en modo kv_aligned"},
  {"kv.of", "{0} of {1} match", "{0} de {1} coinciden"},
  {"kv.per_layer", "K/V hash consistency per layer across prompts", "Consistencia de hashes K/V por capa entre prompts"},
  {"kv.per_layer.text", "A match is that prefill and decode gave the same row for the same token; consistent is that all prompts of the layer agree about it.", "Coincidir es que prefill y decode dieron la misma fila para el mismo token; consistente es que todos los prompts de la capa concuerdan en ello."},
  {"kv.prompts", "Prompts", "Prompts"},
  {"kv.yes", "consistent", "consistente"},
  {"kv.varies", "varies across prompts", "varía entre prompts"},
  {"kv.consistency", "Consistency", "Consistencia"},
  {"kv.cache_column", "Cache", "Caché"},
  {"kv.status", "Status", "Estado"},
  {"kv.hashes", "Q/K/V hashes per layer", "Hashes Q/K/V por capa"},
  {"scores", "Attention score statistics", "Estadísticas de puntajes de atención"},
  {"scores.none", "Not recorded: the run has no attn_scores or attn_probs rows.", "No registradas: la ejecución no tiene filas attn_scores ni attn_probs."},
  {"scores.stage", "Stage", "Etapa"},
  {"scores.pre", "before softmax", "antes de softmax"},
  {"scores.post", "after softmax", "después de softmax"},
  {"phase", "Phase", "Fase"},
  {"guide", "Interpretation Guide", "Guía de interpretación"},
  {"guide.scenario", "Scenario", "Escenario"},
  {"guide.evidence", "Evidence", "Evidencia"},
  {"guide.interpretation", "Interpretation", "Interpretación"},
  {"guide.here", "In this run", "En esta ejecución"},
  {"guide.holds", "✔ {0} of {1} rows", "✔ {0} de {1} filas"},
  {"guide.Q_MISMATCH", "Q Mismatch", "Desajuste de Q"},
  {"guide.Q_MISMATCH.evidence", "Q differs beyond rounding", "Q difiere más allá del redondeo"},
  {"guide.Q_MISMATCH.meaning", "Bug in the Q projection, its RoPE or what feeds them", "Error en la proyección Q, su RoPE o lo que las alimenta"},
  {"guide.REAL_MISMATCH", "Real Mismatch", "Desajuste real"},
  {"guide.REAL_MISMATCH.evidence", "K or V differs AND the attention output diverges", "K o V difiere Y la salida de atención diverge"},
  {"guide.REAL_MISMATCH.meaning", "Bug in the KV projection or attention", "Error en la proyección KV o en la atención"},
  {"guide.STRUCTURAL_DRIFT", "Structural Drift", "Deriva estructural"},
  {"guide.STRUCTURAL_DRIFT.evidence", "K or V differs, but the attention output does not diverge beyond rounding", "K o V difiere, pero la salida de atención no diverge más allá del redondeo"},
  {"guide.STRUCTURAL_DRIFT.meaning", "Expected behavior: different computation paths", "Comportamiento esperado: caminos de cálculo distintos"},
  {"guide.KV_MISALIGNMENT", "KV Misalignment", "Desalineación KV"},
  {"guide.KV_MISALIGNMENT.evidence", "K and V match, but cache rows, scores, probabilities or the attention output diverge", "K y V coinciden, pero filas de caché, puntajes, probabilidades o la salida de atención divergen"},
  {"guide.KV_MISALIGNMENT.meaning", "Bug in RoPE, the cache, the mask or softmax", "Error en RoPE, la caché, la máscara o softmax"},
  {"guide.ALIGNED", "Aligned", "Alineado"},
  {"guide.ALIGNED.evidence", "K and V match and nothing after them diverges", "K y V coinciden y nada diverge después"},
  {"guide.ALIGNED.meaning", "Nothing to explain", "Nada que explicar"},
  {"guide.UNKNOWN", "Unknown", "Desconocido"},
  {"guide.UNKNOWN.evidence", "Q, K, V or the attention output is not recorded on both sides, or not comparable", "Q, K, V o la salida de atención no está registrada en ambos lados, o no es comparable"},
  {"guide.UNKNOWN.meaning", "Nothing can be concluded", "No se puede concluir nada"},
  {"guide.first", "In forward order, the first that is not aligned: {0}, layer {1}, prompt `{2}`.", "En el orden de cálculo, el primero no alineado: {0}, capa {1}, prompt `{2}`."},
  {"guide.all_aligned", "Every row is aligned.", "Todas las filas están alineadas."},
  {"hypothesis", "Hypothesis Testing", "Prueba de hipótesis"},
  {"hypothesis.h0", "**H₀**: the drift is structural, there is no bug in KV attention.", "**H₀**: la deriva es estructural, no hay error en la atención KV."},
  {"hypothesis.h1", "**H₁**: the drift is real, there is a bug in KV attention.", "**H₁**: la deriva es real, hay un error en la atención KV."},
  {"hypothesis.rejected", "H₀ does not hold: {0} of {1} rows are REAL_MISMATCH, KV_MISALIGNMENT or Q_MISMATCH.", "H₀ no se sostiene: {0} de {1} filas son REAL_MISMATCH, KV_MISALIGNMENT o Q_MISMATCH."},
  {"hypothesis.undecided", "Undecided: {0} of {1} rows are UNKNOWN, and no other row speaks against H₀.", "Sin decidir: {0} de {1} filas son UNKNOWN y ninguna otra contradice H₀."},
  {"hypothesis.kept", "Nothing speaks against H₀: none of the {0} rows diverges beyond rounding.", "Nada contradice H₀: ninguna de las {0} filas diverge más allá del redondeo."},
  {"hypothesis.cache", "The cache rows are not shown to be equal in {0} of {1} rows: decode may not have attended over what prefill wrote (KV_MISMATCH).", "No consta que las filas de caché sean iguales en {0} de {1} filas: decode puede no haber atendido a lo que escribió prefill (KV_MISMATCH)."},

  // Modes, LM head, documents
  {"by_mode", "Results by Mode", "Resultados por modo"},
  {"by_mode.kv", "KV status", "Estado KV"},
  {"by_mode.interpretation", "KV interpretation", "Interpretación KV"},
  {"mode.as_designed", "**as_designed**: decode computes its own K and V at the traced position and attends over them.", "**as_designed**: decode calcula sus propias K y V en la posición trazada y atiende a ellas."},
  {"mode.kv_aligned", "**kv_aligned**: decode attends over exactly the K/V rows that prefill wrote; a drift of attn_out that remains is Q or the attention math.", "**kv_aligned**: decode atiende exactamente a las filas K/V que escribió prefill; una deriva de attn_out que quede es Q o el cálculo de atención."},
  {"mode.batch_invariant", "**batch_invariant**: prefill and decode use one reduction order; anything but a bitwise PASS is a bug.", "**batch_invariant**: prefill y decode usan un solo orden de reducción; todo lo que no sea PASS bit a bit es un error."},
  {"lm_head", "LM Head: Prefill vs Decode", "Cabeza LM: prefill vs decode"},
  {"lm_head.text", "Paired by prompt and order, not by position: decode0 may sit one position later, so another top-1 is no failure by itself.", "Emparejado por prompt y orden, no por posición: decode0 puede estar una posición después, así que otro top-1 no es un fallo por sí mismo."},
  {"lm_head.routes", "Route prefill → decode", "Ruta prefill → decode"},
  {"lm_head.cpu", "CPU probe agrees: prefill, decode", "La sonda de CPU concuerda: prefill, decode"},
  {"lm_head.suspect", "Suspect route", "Ruta sospechosa"},
  {"lm_head.named", "The CPU probe contradicts the top-1 of {0} and of no other route ({1} of {2} prompts).", "La sonda de CPU contradice el top-1 de {0} y de ninguna otra ruta ({1} de {2} prompts)."},
  {"lm_head.several", "The CPU probe contradicts the top-1 of more than one route; see the table.", "La sonda de CPU contradice el top-1 de más de una ruta; véase la tabla."},
  {"lm_head.clean", "The CPU probe contradicts no route.", "La sonda de CPU no contradice ninguna ruta."},
  {"lm_head.no_probe", "No CPU probe is recorded: no route can be suspected or cleared.", "No hay sonda de CPU registrada: ninguna ruta se puede señalar ni descartar."},
  {"yes", "yes", "sí"},
  {"not", "no", "no"},
  {"conflict", "Other Documents and What They Claim", "Otros documentos y lo que afirman"},
  {"conflict.text", "A claim is not evidence: the verdict rests on the evidence named above and on nothing that these documents state.", "Una afirmación no es evidencia: el veredicto se apoya en la evidencia indicada arriba y en nada de lo que afirman estos documentos."},
  {"conflict.document", "Document", "Documento"},
  {"conflict.claims", "Claims", "Afirma"},
  {"conflict.nothing", "no verdict", "ningún veredicto"},
  {"conflict.pairs", "Pass, fail, missing", "Pasan, fallan, ausentes"},
  {"conflict.conflict", "Assessment", "Valoración"},
  {"conflict.line", "line {0}", "línea {0}"},

  // Analysis table
  {"table", "Prefill vs Decode Drift Analysis", "Análisis de deriva entre prefill y decode"},
  {"result", "RESULT", "RESULTADO"},
  {"result.text", "{0} - {1} at layer {2}, `{3}`, prompt `{4}`", "{0} - {1} en la capa {2}, `{3}`, prompt `{4}`"},
  {"failure_summary", "Failure Summary", "Resumen de fallos"},
  {"detailed", "Detailed Results", "Resultados detallados"},
  {"detailed.none", "No comparison is recorded.", "No hay ninguna comparación registrada."},
  {"detailed.decode_only", "Not listed: {0} decode-only rows, which are context and were compared with nothing.", "Sin listar: {0} filas sólo de decode, que son contexto y no se compararon con nada."},
};
// clang-format on

/// Names a text of the table; a name that the table lacks does not compile.
class TextId {
 public:
  consteval TextId(const char* id) : index_(find(id)) {}
  const ReportText& text() const { return kReportTexts[index_]; }

 private:
  static consteval size_t find(std::string_view id) {
    for (size_t i = 0; i < std::size(kReportTexts); i++) {
      if (kReportTexts[i].id == id) return i;
    }
    throw "no such text";
  }
  size_t index_;
};

/// Null when the table has no text of that name.
const ReportText* find_report_text(std::string_view id);

using TextValues = std::vector<std::string>;

/// `text` with {0}, {1}, ... replaced by the values; braces in values mean nothing.
std::string fill_text(std::string_view text, const TextValues& values);

/// The texts of one language or of both.
class Wording {
 public:
  explicit Wording(Language language) : language_(language) {}
  Language language() const { return language_; }

  /// For a heading, label or cell: both languages as "English / Spanish", once when they are equal.
  std::string operator()(TextId id, const TextValues& values = {}) const {
    return line(id.text(), values);
  }
  std::string line(const ReportText& text, const TextValues& values = {}) const;

 private:
  Language language_;
};

}  // namespace greta
